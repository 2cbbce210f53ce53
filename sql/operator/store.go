package operator

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
)

func megabytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// store keeps compacted batches and joins them into one column each.
type store struct {
	width   int // columns
	batches []*batch.Batch
	rows    int
	bytes   int64
}

func (s *store) add(b *batch.Batch) {
	s.batches = append(s.batches, b)
	s.rows += b.Len
	for _, c := range b.Columns {
		s.bytes += batch.Bytes(c)
	}
}

// concat returns the columns of all rows.
func (s *store) concat(operator string) ([]arrow.Array, error) {
	out := make([]arrow.Array, s.width)
	for k := range out {
		parts := make([]arrow.Array, len(s.batches))
		text := int64(0)
		for i, b := range s.batches {
			parts[i] = b.Columns[k]
			if !batch.IsDictionary(parts[i]) {
				text += batch.Bytes(parts[i])
			}
		}
		id := arrow.NULL
		if len(parts) > 0 {
			id = parts[0].DataType().ID()
		}
		if text > math.MaxInt32 && (id == arrow.STRING || id == arrow.BINARY || id == arrow.DICTIONARY) {
			return nil, fault.Userf("%s: a text column has %s in one task, more than 2 GiB", operator, megabytes(text))
		}
		out[k] = batch.Concat(parts)
	}
	return out, nil
}
