package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// window computes window calls that share a PARTITION BY and an ORDER BY. Its
// input is sorted once; then all partitions that came whole are computed
// together, in columns.
type window struct {
	input      batch.Reader // sorted, with the keys as last columns
	fields     []schema.Field
	partition  []schema.Type
	order      []plan.SortKey
	orderTypes []schema.Type
	calls      []windowCall
	mem        account

	pending store // rows that have come and not been computed
	enough  int   // rows to gather before looking for the end of a partition
	ended   bool
	out     sliced
}

// windowCall computes one column for the rows of whole partitions.
type windowCall interface {
	compute(p *partitions) (arrow.Array, error)
}

func newWindow(c *compiler, n *plan.Window, input batch.Reader, b *budget) (*window, error) {
	w := &window{fields: n.Fields(), order: n.OrderBy, mem: account{b: b, operator: "OVER"}, enough: batch.MaxRows}
	sort := &plan.Sort{Input: n.Input, Limit: -1}
	for _, e := range n.PartitionBy {
		sort.Keys = append(sort.Keys, plan.SortKey{Expr: e})
		w.partition = append(w.partition, e.Type())
	}
	for _, k := range n.OrderBy {
		sort.Keys = append(sort.Keys, k)
		w.orderTypes = append(w.orderTypes, k.Expr.Type())
	}
	for i := range n.Calls {
		call, err := newWindowCall(c, &n.Calls[i], n, input.Fields())
		if err != nil {
			return nil, fmt.Errorf("window function %s: %w", n.Calls[i].Name, err)
		}
		w.calls = append(w.calls, call)
	}
	w.input = input
	if len(sort.Keys) > 0 {
		s, err := newSorter(c, sort, input, b)
		if err != nil {
			return nil, err
		}
		s.withKeys = true
		w.input = s
	}
	w.pending.width = len(input.Fields()) + len(sort.Keys)
	return w, nil
}

func (w *window) Fields() []schema.Field { return w.fields }
func (w *window) Close() error           { return w.input.Close() }

func (w *window) Next(ctx context.Context) (*batch.Batch, error) {
	for {
		if b := w.out.next(); b != nil {
			return b, nil
		}
		if w.ended && w.pending.rows == 0 {
			return nil, io.EOF
		}
		for !w.ended && w.pending.rows < w.enough {
			b, err := w.input.Next(ctx)
			if errors.Is(err, io.EOF) {
				w.ended = true
				break
			}
			if err != nil {
				return nil, err
			}
			w.pending.add(batch.Compact(b))
			if err := w.mem.set(2 * w.pending.bytes); err != nil {
				return nil, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if w.pending.rows > math.MaxInt32/2 {
			return nil, fault.Userf("OVER: a partition has more than %d rows", math.MaxInt32/2)
		}
		if err := w.compute(); err != nil {
			return nil, err
		}
	}
}

// compute makes the output of the partitions that are whole.
func (w *window) compute() error {
	if w.pending.rows == 0 {
		return nil
	}
	columns, err := w.pending.concat("OVER")
	if err != nil {
		return err
	}
	n := w.pending.rows
	width := len(columns) - len(w.partition) - len(w.orderTypes)
	starts := make([]bool, n)
	starts[0] = true
	for i, t := range w.partition {
		markChanges(starts, columns[width+i], t)
	}
	cut := n
	if !w.ended {
		for cut = n - 1; !starts[cut]; cut-- {
		}
		if cut == 0 {
			w.pending = store{width: len(columns)}
			w.pending.add(&batch.Batch{Columns: columns, Len: n})
			w.enough = 2 * n
			return nil
		}
	}
	w.enough = batch.MaxRows
	rest := store{width: len(columns)}
	if cut < n {
		b := &batch.Batch{Len: n - cut}
		for _, c := range columns {
			b.Columns = append(b.Columns, batch.Slice(c, cut, n))
		}
		rest.add(b)
	}
	w.pending = rest
	for i := range columns {
		columns[i] = batch.Slice(columns[i], 0, cut)
	}
	p := newPartitions(columns[:width], cut, starts[:cut])
	p.keys = columns[width+len(w.partition):]
	p.order = w.order
	p.findPeers(w.orderTypes)
	out := append(make([]arrow.Array, 0, width+len(w.calls)), columns[:width]...)
	for i, call := range w.calls {
		a, err := call.compute(p)
		if err != nil {
			return fmt.Errorf("window function %s: %w", w.fields[width+i].Name, err)
		}
		out = append(out, a)
	}
	w.out = sliced{columns: out, n: cut}
	return nil
}

// partitions are the rows of whole partitions, in order.
type partitions struct {
	columns []arrow.Array // of the input
	n       int
	keys    []arrow.Array // ORDER BY
	order   []plan.SortKey
	count   int
	of      []int32 // by row: the partition
	bounds  []int32 // by partition: its first row; then n
	// Peers are rows of one partition that are equal in ORDER BY; without one all are.
	peerOf     []int32
	peerBounds []int32
}

func newPartitions(columns []arrow.Array, n int, starts []bool) *partitions {
	p := &partitions{columns: columns, n: n}
	p.of, p.bounds = numbered(starts)
	p.count = len(p.bounds) - 1
	return p
}

// numbered numbers the stretches that begin where starts is true.
func numbered(starts []bool) (of, bounds []int32) {
	of = make([]int32, len(starts))
	k := int32(-1)
	for i, s := range starts {
		if s {
			k++
			bounds = append(bounds, int32(i))
		}
		of[i] = k
	}
	return of, append(bounds, int32(len(starts)))
}

func (p *partitions) findPeers(types []schema.Type) {
	if len(types) == 0 {
		p.peerOf, p.peerBounds = p.of, p.bounds
		return
	}
	starts := make([]bool, p.n)
	for _, b := range p.bounds[:p.count] {
		starts[b] = true
	}
	for i, t := range types {
		markChanges(starts, p.keys[i], t)
	}
	p.peerOf, p.peerBounds = numbered(starts)
}

// start and end are the bounds of row i's partition.
func (p *partitions) start(i int) int32 { return p.bounds[p.of[i]] }
func (p *partitions) end(i int) int32   { return p.bounds[p.of[i]+1] }

func (p *partitions) peerStart(i int) int32 { return p.peerBounds[p.peerOf[i]] }
func (p *partitions) peerEnd(i int) int32   { return p.peerBounds[p.peerOf[i]+1] }

// markChanges sets the marks of the rows whose value is not the one before
// it: NULLs are equal to each other here.
func markChanges(marks []bool, a arrow.Array, t schema.Type) {
	n := len(marks)
	valid := batch.Validity(a)
	changed := func(differs func(i int) bool) {
		if valid == nil {
			for i := 1; i < n; i++ {
				marks[i] = marks[i] || differs(i)
			}
			return
		}
		for i := 1; i < n; i++ {
			x, y := batch.BitSet(valid, i-1), batch.BitSet(valid, i)
			marks[i] = marks[i] || x != y || x && differs(i)
		}
	}
	switch a.DataType().ID() {
	case arrow.NULL:
	case arrow.DICTIONARY:
		codes := batch.Values[int32](a)
		changed(func(i int) bool { return codes[i] != codes[i-1] })
	case arrow.STRING, arrow.BINARY:
		x := batch.TextOf(a)
		changed(func(i int) bool { return string(x.Bytes(i)) != string(x.Bytes(i-1)) })
	case arrow.DECIMAL128:
		x := wideValues(a)
		changed(func(i int) bool { return x[i] != x[i-1] })
	case arrow.LIST, arrow.MAP, arrow.STRUCT:
		e := newEncoder(a, t)
		var last, this []byte
		for i := range n {
			this = e.append(this[:0], i)
			if i > 0 && string(this) != string(last) {
				marks[i] = true
			}
			last, this = this, last
		}
	default:
		x := bits64(t, a)
		changed(func(i int) bool { return x[i] != x[i-1] })
	}
}
