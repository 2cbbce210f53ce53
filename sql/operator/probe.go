package operator

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/sql/plan"
)

// probe is a left batch that is matched with a build. Its rows are numbered
// from 0 to n without those that the batch's selection leaves out, and without
// those that have no candidate and so no part in the output.
type probe struct {
	t      *joinTask
	j      *join
	built  *build
	b      *batch.Batch
	at     []int32 // position of each row in the batch's columns; nil: its number
	n      int
	groups []int32 // of the keys in the build, -1: none; nil without keys
	// matched and unknown are by row: whether a match was found, or, for NullAware
	// joins, one that a NULL leaves open. nil if nobody asks.
	matched, unknown []bool
	was              []bool  // matched by an earlier block; nil: there was none
	other            []int32 // NullAware: group of the other keys, -1 none
	lastNull         []bool  // NullAware: the last key is NULL; nil: nowhere

	walk walk
	done bool // all candidates have been looked at
}

// walk goes through the candidates of rows, MaxRows pairs at a time.
type walk struct {
	groups []int32 // by row; nil: all rows have the candidates [0, all)
	chains *chains
	all    int
	row    int
	at     int // of the row's candidates
}

// next appends pairs, as many as there is room for; skip, if not nil, says which rows to
// leave out.
func (w *walk) next(n int, skip []bool, left, right []int32) ([]int32, []int32) {
	for w.row < n && len(left) < batch.MaxRows {
		if skip != nil && skip[w.row] {
			w.row, w.at = w.row+1, 0
			continue
		}
		room := batch.MaxRows - len(left)
		if w.groups == nil {
			k := min(room, w.all-w.at)
			for i := range k {
				left = append(left, int32(w.row))
				right = append(right, int32(w.at+i))
			}
			if w.at += k; w.at >= w.all {
				w.row, w.at = w.row+1, 0
			}
			continue
		}
		g := w.groups[w.row]
		if g < 0 {
			w.row++
			continue
		}
		list := w.chains.of(g)[w.at:]
		k := min(room, len(list))
		for range k {
			left = append(left, int32(w.row))
		}
		right = append(right, list[:k]...)
		if w.at += k; k == len(list) {
			w.row, w.at = w.row+1, 0
		}
	}
	return left, right
}

// newProbe looks up the keys of a left batch.
func (t *joinTask) newProbe(b *batch.Batch) (*probe, error) {
	j := t.j
	p := &probe{t: t, j: j, built: t.built, b: b, at: b.Sel, n: b.Rows()}
	if j.keepsLeft() || !j.yieldsPairs() {
		p.matched = make([]bool, p.n)
	}
	if j.nullAware {
		p.unknown = make([]bool, p.n)
	}
	if t.blocks {
		p.recall()
	}
	if p.built.table == nil {
		p.walk = walk{all: p.built.n}
		return p, nil
	}
	r := dense(b, j.leftKeys)
	keys, err := evalAll(j.leftKeys, r)
	if err != nil {
		return nil, err
	}
	p.groups = p.built.table.groups(make([]int32, 0, r.n), keys, r.n, false)
	p.walk = walk{groups: p.groups, chains: &p.built.rows}
	if !j.nullAware {
		return p, nil
	}
	last := len(keys) - 1
	if p.built.others == nil {
		p.other = make([]int32, p.n)
	} else {
		p.other = p.built.others.groups(nil, keys[:last], r.n, false)
	}
	forNulls(keys[last:], r.n, func(i int) {
		if p.lastNull == nil {
			p.lastNull = make([]bool, p.n)
		}
		p.lastNull[i] = true
	})
	return p, nil
}

// recall loads what earlier blocks found out about the rows; keep stores what
// is known now.
func (p *probe) recall() {
	p.was = make([]bool, p.n)
	for i, f := range p.t.flags[p.t.base : p.t.base+p.n] {
		p.was[i] = f&isMatched != 0
		if p.matched != nil {
			p.matched[i] = p.was[i]
		}
		if p.unknown != nil {
			p.unknown[i] = f&isUnknown != 0
		}
	}
}

func (p *probe) keep() {
	if !p.t.blocks {
		return
	}
	for i := range p.n {
		f := byte(0)
		if p.matched != nil && p.matched[i] {
			f = isMatched
		}
		if p.unknown != nil && p.unknown[i] {
			f |= isUnknown
		}
		p.t.flags[p.t.base+i] = f
	}
}

// step returns the next output, or nil, and whether the batch is done with.
func (p *probe) step() (out *batch.Batch, done bool, err error) {
	switch {
	case !p.j.yieldsPairs():
		if err := p.resolve(); err != nil {
			return nil, false, err
		}
		return p.rows(), true, nil
	case p.j.residual == nil && p.built.unique && !p.j.keepsRight() && !p.t.blocks:
		return p.one(), true, nil
	case p.done:
		return p.alone(), true, nil
	}
	left, right := p.walk.next(p.n, nil, make([]int32, 0, batch.MaxRows), make([]int32, 0, batch.MaxRows))
	if len(left) == 0 {
		p.done = true
		return nil, p.matched == nil, nil
	}
	if left, right, err = p.pass(left, right); err != nil {
		return nil, false, err
	}
	for _, i := range left {
		if p.matched == nil {
			break
		}
		if p.matched[i] && p.j.kind == plan.LeftSingle {
			return nil, false, moreThanOne()
		}
		p.matched[i] = true
	}
	if m := p.built.matched; m != nil {
		for _, k := range right {
			m[k] = true
		}
	}
	if len(left) == 0 {
		return nil, false, nil
	}
	return p.pairs(left, right), false, nil
}

func moreThanOne() error {
	return &fault.Error{Class: fault.User, SQLState: "21000", Message: "a scalar sub-query gave more than one row"}
}

// pass returns the pairs for which the residual condition is true.
func (p *probe) pass(left, right []int32) ([]int32, []int32, error) {
	if p.j.residual == nil {
		return left, right, nil
	}
	width := len(p.b.Columns)
	b := &batch.Batch{Columns: make([]arrow.Array, width+len(p.built.columns)), Len: len(left)}
	positions := p.positions(left)
	for _, e := range p.j.residual {
		for _, c := range e.columns {
			switch {
			case b.Columns[c] != nil:
			case c < width:
				b.Columns[c] = batch.Gather(p.b.Columns[c], positions)
			default:
				b.Columns[c] = batch.Gather(p.built.columns[c-width], right)
			}
		}
	}
	sel, all, err := narrow(p.j.residual, b)
	if err != nil || all {
		return left, right, err
	}
	for k, i := range sel {
		left[k], right[k] = left[i], right[i]
	}
	return left[:len(sel)], right[:len(sel)], nil
}

// positions returns where rows lie in the batch's columns.
func (p *probe) positions(rows []int32) []int32 {
	if p.at == nil {
		return rows
	}
	out := make([]int32, len(rows))
	for k, i := range rows {
		out[k] = p.at[i]
	}
	return out
}

// pairs makes the output of matches; right -1 is none.
func (p *probe) pairs(left, right []int32) *batch.Batch {
	j := p.j
	out := &batch.Batch{Len: len(left), Columns: make([]arrow.Array, 0, len(j.fields))}
	positions := p.positions(left)
	for _, c := range p.b.Columns {
		out.Columns = append(out.Columns, j.column(len(out.Columns), c, positions))
	}
	for _, c := range p.built.columns {
		out.Columns = append(out.Columns, j.column(len(out.Columns), c, right))
	}
	return out
}

// column gathers output column i, or leaves it out if nobody looks at it.
func (j *join) column(i int, a arrow.Array, at []int32) arrow.Array {
	if j.need != nil && !j.need[i] {
		return array.NewNull(len(at))
	}
	return batch.Gather(a, at)
}

// one makes the output when every row has at most one match and nothing else
// decides. If many rows match, left columns pass as they are.
func (p *probe) one() *batch.Batch {
	j := p.j
	sel, right := p.at, p.groups
	if !j.keepsLeft() {
		hits := make([]int32, p.n)
		k := 0
		for i, g := range p.groups {
			hits[k] = int32(i)
			k += int(uint32(^g) >> 31) // 1 if g >= 0
		}
		hits = hits[:k]
		switch {
		case k == 0:
			return nil
		case k == p.n:
		case k*sparse < p.b.Len:
			right = make([]int32, k)
			for x, i := range hits {
				right[x] = p.groups[i]
			}
			return p.pairs(hits, right)
		default:
			sel = p.positions(hits)
		}
	} else if p.at != nil && p.n*sparse < p.b.Len {
		hits := make([]int32, p.n)
		for i := range hits {
			hits[i] = int32(i)
		}
		return p.pairs(hits, right)
	}
	if p.at != nil { // right as long as the columns
		right = make([]int32, p.b.Len)
		for i := 0; p.built.n == 0 && i < len(right); i++ {
			right[i] = -1 // there is no row that could stand in for those left out
		}
		for i, g := range p.groups {
			right[p.at[i]] = g
		}
	}
	out := &batch.Batch{Len: p.b.Len, Sel: sel, Columns: make([]arrow.Array, 0, len(j.fields))}
	for _, c := range p.b.Columns {
		if j.need != nil && !j.need[len(out.Columns)] {
			c = array.NewNull(out.Len)
		}
		out.Columns = append(out.Columns, c)
	}
	for _, c := range p.built.columns {
		out.Columns = append(out.Columns, j.column(len(out.Columns), c, right))
	}
	return out
}

// alone makes the output of the rows without a match, if the kind yields them.
func (p *probe) alone() *batch.Batch {
	if !p.t.last {
		return nil // a later block may have a match
	}
	var left, right []int32
	for i, m := range p.matched {
		if !m {
			left = append(left, int32(i))
			right = append(right, -1)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return p.pairs(left, right)
}

// resolve finds out, for a join that doesn't yield right columns, which rows
// have a match, and of which a NULL leaves it open.
func (p *probe) resolve() error {
	if err := p.mark(&p.walk, p.matched); err != nil || !p.j.nullAware {
		return err
	}
	// NULL = anything is unknown: for a NULL on the left all right rows count, for
	// others those with a NULL.
	for _, side := range []struct {
		left   bool
		chains *chains
	}{{true, &p.built.all}, {false, &p.built.null}} {
		w := walk{groups: make([]int32, p.n), chains: side.chains}
		some := false
		for i := range w.groups {
			w.groups[i] = -1
			if !p.matched[i] && p.other[i] >= 0 && (p.lastNull != nil && p.lastNull[i]) == side.left && len(side.chains.start) > 1 {
				w.groups[i], some = p.other[i], true
			}
		}
		if some {
			if err := p.mark(&w, p.unknown); err != nil {
				return err
			}
		}
	}
	return nil
}

// mark sets the marks of rows that have a candidate which passes.
func (p *probe) mark(w *walk, marks []bool) error {
	if p.j.residual == nil {
		for i := range marks {
			switch {
			case w.groups == nil:
				marks[i] = marks[i] || w.all > 0
			case w.groups[i] >= 0 && p.built.keysOnly:
				marks[i] = true
			case w.groups[i] >= 0:
				marks[i] = marks[i] || w.chains.start[w.groups[i]+1] > w.chains.start[w.groups[i]]
			}
		}
		return nil
	}
	left, right := make([]int32, 0, batch.MaxRows), make([]int32, 0, batch.MaxRows)
	for {
		l, r := w.next(p.n, marks, left, right)
		if len(l) == 0 {
			return nil
		}
		l, _, err := p.pass(l, r)
		if err != nil {
			return err
		}
		for _, i := range l {
			marks[i] = true
		}
	}
}

// rows makes the output of a join that doesn't yield right columns.
func (p *probe) rows() *batch.Batch {
	if p.j.kind == plan.LeftMark {
		if !p.t.last {
			return nil
		}
		return p.marked()
	}
	sel := make([]int32, 0, p.n)
	for i, m := range p.matched {
		if p.was != nil && !p.emits(i) {
			continue
		}
		if m == (p.j.kind == plan.LeftSemi) && !(p.unknown != nil && p.unknown[i]) {
			sel = append(sel, int32(i))
		}
	}
	switch len(sel) {
	case 0:
		return nil
	case p.n:
		return p.b
	}
	return &batch.Batch{Columns: p.b.Columns, Len: p.b.Len, Sel: p.positions(sel)}
}

// emits reports whether the output of a row is known with this block and wasn't
// before.
func (p *probe) emits(i int) bool {
	if p.j.kind == plan.LeftSemi {
		return !p.was[i]
	}
	return p.t.last
}

func (p *probe) marked() *batch.Batch {
	values := make([]byte, (p.b.Len+7)/8)
	var valid []byte
	for i, m := range p.matched {
		at := i
		if p.at != nil {
			at = int(p.at[i])
		}
		if m {
			values[at>>3] |= 1 << (uint(at) & 7)
		} else if p.unknown != nil && p.unknown[i] {
			if valid == nil {
				valid = allOnes(p.b.Len)
			}
			valid[at>>3] &^= 1 << (uint(at) & 7)
		}
	}
	out := &batch.Batch{Len: p.b.Len, Sel: p.b.Sel, Columns: make([]arrow.Array, 0, len(p.b.Columns)+1)}
	out.Columns = append(append(out.Columns, p.b.Columns...), batch.NewBoolean(values, p.b.Len, valid))
	return out
}
