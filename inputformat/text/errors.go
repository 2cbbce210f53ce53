package text

import (
	"fmt"
	"math"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// problem is a row of the block that can't be taken.
type problem struct {
	row    int
	column int // of Spec.Out, or one of the constants below
	which  int // of Block.malformed
}

const (
	wrongFields = -1
	malformed   = -2
)

// cellError says where a problem is in the file and what would be right.
func (r *reader) cellError(p problem) error {
	b := r.block
	rec := b.records[p.row]
	line, err := r.body.File.lineAt(r.offset + int64(rec.start))
	if err != nil {
		return err
	}
	place := fmt.Sprintf("%s, line %d", r.body.File.Path, line)
	switch p.column {
	case malformed:
		m := b.malformed[p.which]
		if line, err = r.body.File.lineAt(r.offset + int64(m.where)); err != nil {
			return err
		}
		return fault.Userf("%s, line %d: %s: %s", r.body.File.Path, line, m.what, quote(b.Data[rec.start:rec.end]))
	case wrongFields:
		got, want := int(b.fields[p.row]), len(r.spec.Columns)
		return fault.Userf("%s: %s, expected %d: %s", place, fieldCount(got), want, quote(b.Data[rec.start:rec.end]))
	}
	c := r.spec.Out[p.column]
	place += ", column " + c.Name
	cell := b.cells[p.column][p.row]
	if cell.Len < 0 {
		return fault.Userf("%s: no value, but the column is NOT NULL", place)
	}
	why := ""
	if r.spec.OnError == Null {
		why = ", and can't be NULL instead: the column is NOT NULL"
	}
	return fault.Userf("%s: %s is not %s%s", place, quote(b.Data[cell.Start:cell.Start+cell.Len]), Expected(c.Type), why)
}

func (r *reader) brokenError() error {
	line, err := r.body.File.lineAt(r.offset + int64(r.block.brokenFrom))
	if err != nil {
		return err
	}
	return fault.Userf("%s, line %d: %s", r.body.File.Path, line, r.block.broken)
}

func fieldCount(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

const maxQuoted = 80

func quote(b []byte) string {
	if len(b) > maxQuoted {
		return fmt.Sprintf("%q...", b[:maxQuoted])
	}
	return fmt.Sprintf("%q", b)
}

// Expected says what a cell of a type must look like.
func Expected(t schema.Type) string {
	whole := func(least, most int64) string {
		return fmt.Sprintf("%s %s (a whole number from %d to %d)", article(t), t, least, most)
	}
	switch t.Kind {
	case schema.Boolean:
		return "a boolean (true or false)"
	case schema.TinyInt:
		return whole(math.MinInt8, math.MaxInt8)
	case schema.SmallInt:
		return whole(math.MinInt16, math.MaxInt16)
	case schema.Int:
		return whole(math.MinInt32, math.MaxInt32)
	case schema.BigInt:
		return whole(math.MinInt64, math.MaxInt64)
	case schema.Float, schema.Double:
		return "a " + t.String() + " (a number such as -12.5 or 1e10)"
	case schema.Decimal:
		return fmt.Sprintf("a %s (a number with at most %d digits before the point)", t, t.Precision-t.Scale)
	case schema.Date:
		return "a date (such as 2026-11-30)"
	case schema.Timestamp, schema.TimestampTZ:
		return "a timestamp (such as 2026-11-30 12:34:56.789)"
	}
	return article(t) + " " + t.String()
}

func article(t schema.Type) string {
	if t.Kind == schema.Int {
		return "an"
	}
	return "a"
}
