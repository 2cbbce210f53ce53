package optimizer

import (
	"math"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// relation is one input of a tree of inner joins; its columns are from..from+width
// of the tree's output.
type relation struct {
	node        plan.Node
	from, width int
}

// orderJoins finds the equalities that join, and for trees of inner joins an order:
// they are taken apart and put together again, always joining the two parts whose join is
// estimated to be the smallest (Fegaras 1998, A New Heuristic for Optimizing
// Large Queries). Parts that nothing ties together are multiplied last.
func orderJoins(n plan.Node, o *Options) (plan.Node, error) {
	j, ok := n.(*plan.Join)
	if !ok || j.Kind != plan.Inner {
		children := n.Children()
		out := make([]plan.Node, len(children))
		for i, c := range children {
			var err error
			if out[i], err = orderJoins(c, o); err != nil {
				return nil, err
			}
		}
		if len(out) > 0 {
			n = n.WithChildren(out)
		}
		if j, ok := n.(*plan.Join); ok {
			return withKeys(j), nil
		}
		return n, nil
	}
	var relations []relation
	var conds []plan.Expr
	flatten(n, 0, &relations, &conds)
	for i := range relations {
		var err error
		if relations[i].node, err = orderJoins(relations[i].node, o); err != nil {
			return nil, err
		}
	}
	return rebuild(n, relations, conds), nil
}

// withKeys turns the equalities of the residual of a join into its keys. The last key of
// one that is NullAware stays the last.
func withKeys(j *plan.Join) plan.Node {
	if j.Residual == nil {
		return j
	}
	width := len(j.Left.Fields())
	m := *j
	var left, right, rest []plan.Expr
	for _, c := range conjuncts(j.Residual, nil) {
		l, r, ok := equality(c, func(i int) bool { return i < width }, func(i int) bool { return i >= width })
		if !ok {
			rest = append(rest, c)
			continue
		}
		left, right = append(left, l), append(right, shift(r, -width))
	}
	m.LeftKeys, m.RightKeys, m.Residual = append(left, j.LeftKeys...), append(right, j.RightKeys...), all(rest)
	return &m
}

// equality returns the sides of a = b if each has columns, of one side of a join only.
func equality(c plan.Expr, inLeft, inRight func(int) bool) (l, r plan.Expr, ok bool) {
	eq, isCall := c.(*plan.Call)
	if !isCall || eq.Name != "=" || len(eq.Args) != 2 || !eq.Args[0].Type().Equal(eq.Args[1].Type()) {
		return nil, nil, false
	}
	a, b := eq.Args[0], eq.Args[1]
	if allIn(a, inRight) {
		a, b = b, a
	}
	return a, b, allIn(a, inLeft) && allIn(b, inRight) && hasColumn(a) && hasColumn(b)
}

func allIn(e plan.Expr, in func(int) bool) bool {
	ok := true
	plan.Walk(e, func(x plan.Expr) {
		if c, isColumn := x.(*plan.Column); isColumn {
			ok = ok && in(c.Index)
		}
	})
	return ok
}

func hasColumn(e plan.Expr) bool {
	_, _, ok := columnRange(e)
	return ok
}

// flatten lists the inputs and conditions of a join tree whose first column is
// column from of the whole.
func flatten(n plan.Node, from int, relations *[]relation, conds *[]plan.Expr) {
	j, ok := n.(*plan.Join)
	if !ok || j.Kind != plan.Inner {
		*relations = append(*relations, relation{n, from, len(n.Fields())})
		return
	}
	width := len(j.Left.Fields())
	flatten(j.Left, from, relations, conds)
	flatten(j.Right, from+width, relations, conds)
	for i, l := range j.LeftKeys {
		*conds = append(*conds, &plan.Call{Name: "=", Args: []plan.Expr{shift(l, from), shift(j.RightKeys[i], from+width)}, T: schema.BooleanType})
	}
	if j.Residual != nil {
		for _, c := range conjuncts(j.Residual, nil) {
			*conds = append(*conds, shift(c, from))
		}
	}
}

// part is a join tree in the making.
type part struct {
	node plan.Node
	cols []int   // which column of the whole each of its columns is
	rows float64 // estimate
}

// joinOrder puts relations together.
type joinOrder struct {
	parts  []*part
	owner  []*part // of each column of the whole
	conds  []plan.Expr
	used   []bool
	values map[int]float64 // column -> how many distinct values it may have
}

// maxOrdered is the most relations whose order is searched; more are joined as written.
const maxOrdered = 64

// rebuild joins relations.
func rebuild(whole plan.Node, relations []relation, conds []plan.Expr) plan.Node {
	fields := whole.Fields()
	o := &joinOrder{owner: make([]*part, len(fields)), conds: conds, used: make([]bool, len(conds)), values: distinctValues(relations, conds)}
	for _, r := range relations {
		p := &part{node: r.node, rows: rowsOr(r.node)}
		for i := range r.width {
			p.cols = append(p.cols, r.from+i)
			o.owner[r.from+i] = p
		}
		o.parts = append(o.parts, p)
	}
	search := len(relations) <= maxOrdered
	for len(o.parts) > 1 {
		a, b := 0, 1
		if search {
			a, b = o.cheapest()
		}
		o.combine(a, b)
	}
	out := o.parts[0]
	at := make([]int, len(fields))
	same := true
	for i, c := range out.cols {
		at[c] = i
		same = same && c == i
	}
	node := out.node
	var left []plan.Expr
	for i, c := range conds {
		if !o.used[i] {
			left = append(left, remap(c, at))
		}
	}
	node = filtered(node, left)
	if same {
		return node
	}
	return reordered(node, at)
}

func rowsOr(n plan.Node) float64 {
	if rows := Rows(n); rows >= 0 {
		return float64(max(rows, 1))
	}
	return 1e6
}

// cheapest returns the two parts whose join is the smallest among those that an equality
// ties, else the two smallest.
func (o *joinOrder) cheapest() (a, b int) {
	best, found := math.Inf(1), false
	for i, p := range o.parts {
		for k := i + 1; k < len(o.parts); k++ {
			q := o.parts[k]
			size, tied := o.size(p, q)
			switch {
			case found && !tied:
			case tied && !found, size < best:
				a, b, best, found = i, k, size, found || tied
			}
		}
	}
	return a, b
}

// size estimates the join of two parts: the product over the largest number of
// distinct values that a key may have.
func (o *joinOrder) size(p, q *part) (rows float64, tied bool) {
	rows = p.rows * q.rows
	distinct := 1.0
	for i, c := range o.conds {
		if o.used[i] {
			continue
		}
		l, r, ok := equality(c, func(i int) bool { return o.owner[i] == p }, func(i int) bool { return o.owner[i] == q })
		if !ok {
			continue
		}
		tied = true
		d := min(o.distinct(l), o.distinct(r))
		distinct = max(distinct, d)
	}
	return max(rows/distinct, 1), tied
}

func (o *joinOrder) distinct(e plan.Expr) float64 {
	out := math.Inf(1)
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Column); ok {
			if d, known := o.values[c.Index]; known {
				out = min(out, d)
			}
		}
	})
	if math.IsInf(out, 1) {
		return 1000
	}
	return out
}

// distinctValues estimates how many values columns have: at most the unfiltered rows of the
// smallest table among those that equalities tie them to, for there they may be a key.
func distinctValues(relations []relation, conds []plan.Expr) map[int]float64 {
	out := map[int]float64{}
	for _, r := range relations {
		base := baseRows(r.node)
		for i := range r.width {
			out[r.from+i] = base
		}
	}
	for range relations { // until nothing gets smaller; chains are short
		changed := false
		for _, c := range conds {
			eq, ok := c.(*plan.Call)
			if !ok || eq.Name != "=" || len(eq.Args) != 2 {
				continue
			}
			a, ok1 := bare(eq.Args[0])
			b, ok2 := bare(eq.Args[1])
			if !ok1 || !ok2 || out[a] == out[b] {
				continue
			}
			least := min(out[a], out[b])
			out[a], out[b], changed = least, least, true
		}
		if !changed {
			break
		}
	}
	return out
}

// bare returns the column of e, cast or not.
func bare(e plan.Expr) (int, bool) {
	if c := peel(e); c != nil {
		return c.Index, true
	}
	return 0, false
}

// baseRows is how many rows the largest table below n has, unfiltered.
func baseRows(n plan.Node) float64 {
	switch n := n.(type) {
	case *plan.Scan:
		if n.Rows >= 0 {
			return float64(max(n.Rows, 1))
		}
		return 1e6
	case *plan.Aggregate:
		return rowsOr(n)
	}
	out := 1.0
	for _, c := range n.Children() {
		out = max(out, baseRows(c))
	}
	if len(n.Children()) == 0 {
		return rowsOr(n)
	}
	return out
}

// combine joins parts a and b, the larger one to the left.
func (o *joinOrder) combine(a, b int) {
	p, q := o.parts[a], o.parts[b]
	rows, _ := o.size(p, q)
	if p.rows < q.rows {
		p, q = q, p
	}
	out := &part{cols: append(append([]int(nil), p.cols...), q.cols...), rows: rows}
	at := make([]int, len(o.owner))
	for i := range at {
		at[i] = -1
	}
	for i, c := range out.cols {
		at[c] = i
	}
	j := &plan.Join{Left: p.node, Right: q.node, Kind: plan.Inner}
	width := len(p.cols)
	var residual []plan.Expr
	for i, c := range o.conds {
		if o.used[i] || !allPlaced(c, at) {
			continue
		}
		o.used[i] = true
		if l, r, ok := equality(c, func(i int) bool { return o.owner[i] == p }, func(i int) bool { return o.owner[i] == q }); ok {
			j.LeftKeys = append(j.LeftKeys, remap(l, at))
			j.RightKeys = append(j.RightKeys, shift(remap(r, at), -width))
			continue
		}
		residual = append(residual, remap(c, at))
		out.rows = max(1, out.rows*shareOther)
	}
	j.Residual = all(residual)
	out.node = j
	for _, c := range out.cols {
		o.owner[c] = out
	}
	o.parts[a] = out
	o.parts = append(o.parts[:b], o.parts[b+1:]...)
}

// reordered projects column at[i] of n to column i.
func reordered(n plan.Node, at []int) plan.Node {
	fields := n.Fields()
	p := &plan.Project{Input: n}
	for _, i := range at {
		p.Exprs = append(p.Exprs, column(fields, i))
		p.Names = append(p.Names, fields[i].Name)
	}
	return p
}

func allPlaced(e plan.Expr, at []int) bool {
	return allIn(e, func(i int) bool { return at[i] >= 0 })
}
