package render

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// rows calls row for each selected row of b, with its position in the columns.
func rows(b *batch.Batch, row func(i int) error) error {
	if b.Sel != nil {
		for _, i := range b.Sel {
			if err := row(int(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range b.Len {
		if err := row(i); err != nil {
			return err
		}
	}
	return nil
}

// appendCell appends the text of a cell in Hive's rendering; false for NULL,
// which appends nothing.
func appendCell(dst []byte, t schema.Type, a arrow.Array, i int) ([]byte, bool) {
	if a.IsNull(i) || t.Kind == schema.Void {
		return dst, false
	}
	return schema.AppendText(dst, t, a, i), true
}
