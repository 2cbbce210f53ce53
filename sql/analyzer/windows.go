package analyzer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// windows collects the window calls of one SELECT.
type windows struct {
	named map[string]*ast.Window // of the WINDOW clause, by name in lower case
	calls []windowCall
}

// windowCall is a call together with its window, bound over the input of the SELECT.
type windowCall struct {
	partitionBy []plan.Expr
	orderBy     []plan.SortKey
	call        plan.WindowCall
}

// newWindows takes the WINDOW clause; a window may be built on one before or behind it.
func newWindows(defs []ast.Window) (*windows, error) {
	w := &windows{named: map[string]*ast.Window{}}
	for i := range defs {
		name := strings.ToLower(defs[i].Name)
		if w.named[name] != nil {
			return nil, errorAt(defs[i].Pos, fault.StateSyntax, "window %s is defined twice", defs[i].Name)
		}
		w.named[name] = &defs[i]
	}
	return w, nil
}

// spec returns a window with the parts of the one that it names filled in.
func (w *windows) spec(x *ast.Window) (*ast.Window, error) {
	if x.Name == "" {
		return x, nil
	}
	base := w.named[strings.ToLower(x.Name)]
	if base == nil {
		return nil, unknownWindow(x.Pos, x.Name, w.named)
	}
	out := *base
	for depth := 0; out.Base != ""; depth++ { // a definition may build on another
		below := w.named[strings.ToLower(out.Base)]
		switch {
		case below == nil:
			return nil, unknownWindow(base.Pos, out.Base, w.named)
		case depth > len(w.named):
			return nil, errorAt(base.Pos, fault.StateSyntax, "window %s is built on itself", x.Name)
		}
		merged := *below
		over(&merged, &out)
		out = merged
	}
	out.Name = ""
	over(&out, x)
	return &out, nil
}

// over replaces the parts of w that x has.
func over(w, x *ast.Window) {
	if x.PartitionBy != nil {
		w.PartitionBy = x.PartitionBy
	}
	if x.OrderBy != nil {
		w.OrderBy = x.OrderBy
	}
	if x.Frame != nil {
		w.Frame = x.Frame
	}
}

func unknownWindow(pos ast.Pos, name string, named map[string]*ast.Window) error {
	var names []string
	for n := range named {
		names = append(names, n)
	}
	slices.Sort(names)
	e := errorAt(pos, fault.StateSyntax, "there is no window %s in the WINDOW clause", name)
	if len(names) > 0 {
		e.Hint = "there is " + strings.Join(names, ", ")
	}
	return e
}

// windowCall binds f(..) OVER (..) to a column that stands for it.
func (b *binder) windowCall(x *ast.Call, name string) (plan.Expr, error) {
	switch {
	case b.wins == nil || b.inAgg:
		return nil, errorAt(x.Pos, fault.StateSyntax, "window function %s can't stand in %s", name, b.what)
	case b.inWin:
		return nil, errorAt(x.Pos, fault.StateSyntax, "%s stands inside another window function", name)
	}
	b.inWin = true
	defer func() { b.inWin = false }()
	over, err := b.wins.spec(x.Over)
	if err != nil {
		return nil, err
	}
	var w windowCall
	if w.partitionBy, err = b.bindAll(over.PartitionBy); err != nil {
		return nil, err
	}
	w.partitionBy = slices.DeleteFunc(w.partitionBy, func(e plan.Expr) bool { _, ok := e.(*plan.Literal); return ok })
	for _, o := range over.OrderBy {
		k := b.a.sortKey(o)
		if k.Expr, err = b.bind(o.X); err != nil {
			return nil, err
		}
		if _, constant := k.Expr.(*plan.Literal); !constant { // a constant orders nothing
			w.orderBy = append(w.orderBy, k)
		}
	}
	if w.call, err = b.overCall(x, name); err != nil {
		return nil, err
	}
	if w.call.Frame, err = b.frame(over, w.orderBy); err != nil {
		return nil, err
	}
	w.call.OutName = fmt.Sprintf("_w%d", len(b.wins.calls))
	b.wins.calls = append(b.wins.calls, w)
	return &plan.Column{Index: winBase + len(b.wins.calls) - 1, Name: w.call.OutName, T: w.call.T}, nil
}

// overCall binds the function of a window call and its arguments.
func (b *binder) overCall(x *ast.Call, name string) (plan.WindowCall, error) {
	c := plan.WindowCall{Name: name, Distinct: x.Distinct, IgnoreNulls: x.IgnoreNulls}
	fs := b.a.o.Functions
	if x.Filter != nil {
		return c, unsupported(x.Pos, "FILTER of a window function")
	}
	if fs.IsWindow(name) {
		args, err := b.arguments(x)
		if err != nil {
			return c, err
		}
		sig, err := fs.ResolveWindow(name, typesOf(args))
		if err != nil {
			return c, At(x.Pos, err)
		}
		for i := range args {
			args[i] = castTo(args[i], sig.Args[i])
		}
		if (name == "first_value" || name == "last_value") && len(args) == 2 { // first_value(x, true) skips NULLs
			if l, ok := args[1].(*plan.Literal); ok {
				c.IgnoreNulls = c.IgnoreNulls || !l.Value.Null && l.Value.I != 0
				args, sig.Args = args[:1], sig.Args[:1]
			}
		}
		c.Args, c.Bound, c.T = args, sig.Args, sig.Result
		return c, nil
	}
	if !fs.IsAggregate(name) {
		return c, errorAt(x.Pos, fault.StateSyntax, "%s is neither a window nor an aggregate function: it can't have OVER", name)
	}
	if x.Within != nil {
		return c, unsupported(x.Pos, name+"(..) WITHIN GROUP (..) OVER")
	}
	agg, err := b.boundAggregate(x, name)
	if err != nil {
		return c, err
	}
	c.Args, c.Bound, c.T, c.Distinct = agg.Args, agg.Bound, agg.T, agg.Distinct
	return c, nil
}

var boundKinds = map[string]plan.BoundKind{"unbounded preceding": plan.UnboundedPreceding, "preceding": plan.Preceding,
	"current row": plan.CurrentRow, "following": plan.Following, "unbounded following": plan.UnboundedFollowing}

// frame binds a frame. Without one it is, with ORDER BY, all rows up to the current
// one and its peers, else the whole partition.
func (b *binder) frame(w *ast.Window, order []plan.SortKey) (plan.Frame, error) {
	f := w.Frame
	if f == nil {
		if len(order) > 0 {
			return plan.Frame{Range: true, Start: plan.Bound{Kind: plan.UnboundedPreceding}, End: plan.Bound{Kind: plan.CurrentRow}}, nil
		}
		return plan.Frame{Start: plan.Bound{Kind: plan.UnboundedPreceding}, End: plan.Bound{Kind: plan.UnboundedFollowing}}, nil
	}
	out := plan.Frame{Range: f.Unit == "range"}
	for i, end := range [...]*ast.Bound{&f.Start, &f.End} {
		bound := plan.Bound{Kind: boundKinds[end.Kind]}
		if end.N != nil {
			n, err := b.distance(end.N, out.Range, order, f.Pos)
			if err != nil {
				return out, err
			}
			bound.N = n
		}
		if i == 0 {
			out.Start = bound
		} else {
			out.End = bound
		}
	}
	if out.Start.Kind == plan.UnboundedFollowing || out.End.Kind == plan.UnboundedPreceding || out.Start.Kind > out.End.Kind {
		return out, errorAt(f.Pos, fault.StateSyntax, "the frame ends before it starts")
	}
	if out.Range && len(order) == 0 { // all rows are peers
		out = plan.Frame{Start: plan.Bound{Kind: plan.UnboundedPreceding}, End: plan.Bound{Kind: plan.UnboundedFollowing}}
	}
	return out, nil
}

// distance binds the n of n PRECEDING: a constant.
func (b *binder) distance(x ast.Expr, isRange bool, order []plan.SortKey, pos ast.Pos) (*plan.Literal, error) {
	e, err := b.bind(x)
	if err != nil {
		return nil, err
	}
	l, ok := e.(*plan.Literal)
	if !ok && b.a.o.Constant != nil {
		if d, known := b.a.o.Constant(e); known {
			l, ok = &plan.Literal{Value: d}, true
		}
	}
	t := schema.VoidType
	if ok {
		t = l.Value.Type
	}
	switch {
	case !ok || l.Value.Null:
		return nil, errorAt(x.Position(), fault.StateSyntax, "PRECEDING and FOLLOWING want a constant")
	case !isRange && !t.IsInteger(), t.IsInteger() && l.Value.I < 0:
		return nil, errorAt(x.Position(), fault.StateSyntax, "PRECEDING and FOLLOWING want a number of rows, 0 or more")
	case isRange && len(order) != 1:
		return nil, errorAt(pos, fault.StateSyntax, "RANGE with a distance wants exactly one ORDER BY expression, there are %d", len(order))
	}
	if !isRange {
		return &plan.Literal{Value: schema.Datum{Type: schema.BigIntType, I: l.Value.I}}, nil
	}
	key := order[0].Expr.Type()
	if key.IsText() { // Hive compares text by distance as numbers
		key = schema.DoubleType
	}
	if t.IsNumeric() && key.IsNumeric() && b.a.o.Constant != nil {
		if d, known := b.a.o.Constant(castTo(l, key)); known && !d.Null {
			return &plan.Literal{Value: d}, nil
		}
	}
	return l, nil
}

// nodes adds the window computations to n, one node for each window, and returns
// where each call's value is. rewritten gives expressions over n.
// A column of a window that is no column of the groups may be a name of the select list:
// alias finds it.
func (w *windows) nodes(n plan.Node, rewritten func(plan.Expr) (plan.Expr, error), alias func(string) (plan.Expr, bool)) (plan.Node, []*plan.Column, error) {
	out := make([]*plan.Column, len(w.calls))
	same := newIdentity()
	type group struct {
		node *plan.Window
		of   []int
	}
	var groups []*group
	byKey := map[string]*group{}
	for i, c := range w.calls {
		var err error
		rewrite := func(es []plan.Expr) []plan.Expr {
			list := make([]plan.Expr, len(es))
			for k, e := range es {
				if list[k] = e; err != nil {
					continue
				}
				if list[k], err = rewritten(e); err != nil {
					if c, ok := e.(*plan.Column); ok {
						if a, found := alias(c.Name); found && !hasWindow(a) {
							list[k], err = rewritten(a)
						}
					}
				}
			}
			return list
		}
		partition := rewrite(c.partitionBy)
		args := rewrite(c.call.Args)
		order := slices.Clone(c.orderBy)
		for k := range order {
			order[k].Expr = rewrite([]plan.Expr{order[k].Expr})[0]
		}
		if err != nil {
			return nil, nil, err
		}
		var key strings.Builder
		for _, e := range partition {
			fmt.Fprintf(&key, "%d ", same.of(e))
		}
		for _, k := range order {
			fmt.Fprintf(&key, "by %d %t %t ", same.of(k.Expr), k.Desc, k.NullsLast)
		}
		g := byKey[key.String()]
		if g == nil {
			g = &group{node: &plan.Window{PartitionBy: partition, OrderBy: order}}
			byKey[key.String()] = g
			groups = append(groups, g)
		}
		c.call.Args = args
		g.node.Calls = append(g.node.Calls, c.call)
		g.of = append(g.of, i)
	}
	for _, g := range groups {
		width := len(n.Fields())
		g.node.Input = n
		n = g.node
		for k, i := range g.of {
			out[i] = columnOf(n, width+k)
		}
	}
	return n, out, nil
}

func hasWindow(e plan.Expr) bool {
	return uses(e, func(c *plan.Column) bool { return c.Index >= winBase && c.Index < groupID })
}
