package segment

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

// verdict is what is known of a condition for all rows of a row group.
type verdict uint8

const (
	maybe verdict = iota
	never
	always
)

// node is a part of a compiled predicate: a leaf, or the AND or OR of others.
type node struct {
	and, or []*node
	leaf    *leaf
	verdict verdict
	buf     mask
}

// leaf is a condition on one column.
type leaf struct {
	column int // position among the filter's columns; -1: read as NULL
	typ    schema.Type
	isNull bool // IS NULL, IS NOT NULL with not
	not    bool
	op     storage.Op
	values []value             // one, or those of IN (op is Eq)
	texts  map[string]struct{} // values of a longer IN, as text
	ints   map[int64]struct{}  // and as numbers

	// What the leaf says of each entry of a dictionary, worked out once.
	table   mask
	tableOf *dictionary
	hits    int   // entries it accepts
	hit     int32 // the one, if hits is 1
	buf     mask
}

// longIn is from where on values of IN are looked up in a map.
const longIn = 8

// compile binds a predicate to columns. file columns' types are checked
// against those of the literals.
func compile(p storage.Predicate, column func(schema.ColumnID) (int, schema.Type)) (*node, error) {
	parts := func(ps []storage.Predicate) ([]*node, error) {
		if len(ps) == 0 {
			return nil, fault.Bugf("filter: AND or OR of nothing")
		}
		out := make([]*node, len(ps))
		for i, q := range ps {
			var err error
			if out[i], err = compile(q, column); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	switch p := p.(type) {
	case storage.And:
		n, err := parts(p)
		return &node{and: n}, err
	case storage.Or:
		n, err := parts(p)
		return &node{or: n}, err
	case *storage.IsNull:
		i, t := column(p.Column)
		return &node{leaf: &leaf{column: i, typ: t, isNull: true, not: p.Not}}, nil
	case *storage.Compare:
		i, t := column(p.Column)
		if t.IsNested() {
			return nil, fault.Bugf("filter: a comparison with a column of type %s", t)
		}
		l := &leaf{column: i, typ: t, op: p.Op}
		if p.Op > storage.Ge {
			return nil, fault.Bugf("filter: unknown comparison %d", p.Op)
		}
		return &node{leaf: l}, l.add(p.Value)
	case *storage.In:
		i, t := column(p.Column)
		if t.IsNested() {
			return nil, fault.Bugf("filter: IN of a column of type %s", t)
		}
		l := &leaf{column: i, typ: t, op: storage.Eq}
		if len(p.Values) == 0 {
			return nil, fault.Bugf("filter: IN of nothing")
		}
		for _, v := range p.Values {
			if err := l.add(v); err != nil {
				return nil, err
			}
		}
		l.index()
		return &node{leaf: l}, nil
	}
	return nil, fault.Bugf("filter: a predicate of type %T", p)
}

// add adds a literal.
func (l *leaf) add(d schema.Datum) error {
	if d.Null {
		return fault.Bugf("filter: NULL as a literal")
	}
	if l.column < 0 {
		return nil // nothing to compare with
	}
	same := d.Type.Kind == l.typ.Kind || d.Type.IsText() && l.typ.IsText()
	if !same || d.Type.Kind == schema.Decimal && d.Type.Scale != l.typ.Scale {
		return fault.Bugf("filter: a literal of type %s for a column of type %s", d.Type, l.typ)
	}
	v := value{i64: d.I, fits: true, f64: d.F, wide: d.D, text: []byte(d.S)}
	switch l.typ.Kind {
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		v.i64 = int64(d.D.LowBits())
		v.fits = d.D.HighBits() == v.i64>>63
	case schema.Char:
		v.text = []byte(strings.TrimRight(d.S, " "))
	}
	l.values = append(l.values, v)
	return nil
}

// index makes the maps of a long IN.
func (l *leaf) index() {
	if len(l.values) < longIn {
		return
	}
	switch {
	case l.typ.IsText() || l.typ.Kind == schema.Binary:
		l.texts = map[string]struct{}{}
		for _, v := range l.values {
			l.texts[string(v.text)] = struct{}{}
		}
	case l.typ.Kind != schema.Float && l.typ.Kind != schema.Double:
		l.ints = map[int64]struct{}{}
		for _, v := range l.values {
			if v.fits {
				l.ints[v.i64] = struct{}{}
			}
		}
	}
}

// columns calls f with the column of each leaf.
func (n *node) columns(f func(int)) {
	if n.leaf != nil {
		if n.leaf.column >= 0 {
			f(n.leaf.column)
		}
		return
	}
	for _, c := range append(n.and, n.or...) {
		c.columns(f)
	}
}

// judge works out what is known of the condition for all rows at hand. known
// judges a leaf.
func (n *node) judge(known func(*leaf) (verdict, error)) (verdict, error) {
	n.verdict = maybe
	if n.leaf != nil {
		var err error
		n.verdict, err = known(n.leaf)
		return n.verdict, err
	}
	parts, stop, through := n.and, never, always
	if n.or != nil {
		parts, stop, through = n.or, always, never
	}
	all := true
	for _, c := range parts {
		v, err := c.judge(known)
		if err != nil {
			return maybe, err
		}
		if v == stop {
			n.verdict = stop
			return stop, nil
		}
		all = all && v == through
	}
	if all {
		n.verdict = through
	}
	return n.verdict, nil
}

// judgeNull judges a leaf of a column that is NULL in all rows.
func (l *leaf) judgeNull() verdict {
	if l.isNull && !l.not {
		return always
	}
	return never
}

// judgeBounds judges a leaf by a column chunk's statistics.
func (l *leaf) judgeBounds(b *bounds, rows int64) verdict {
	if b.nulls == rows {
		return l.judgeNull()
	}
	if l.isNull {
		if b.nulls == 0 {
			if l.not {
				return always
			}
			return never
		}
		return maybe
	}
	// The bounds of char are in another order than its comparisons.
	if !b.has || l.typ.Kind == schema.Char {
		return maybe
	}
	result := never
	for i := range l.values {
		switch v := l.judgeValue(&l.values[i], b); {
		case v == always && b.nulls == 0:
			return always
		case v != never:
			result = maybe
		}
	}
	return result
}

// judgeValue judges a comparison with one literal for the values that aren't NULL.
func (l *leaf) judgeValue(v *value, b *bounds) verdict {
	lo, hi := l.compare(&b.lo, v), l.compare(&b.hi, v)
	if b.openHigh {
		// Some value is NaN, above hi: above the literal or equal to it.
		hi = 1
		if v.f64 != v.f64 {
			hi = 0
		}
	}
	switch l.op {
	case storage.Eq:
		if lo > 0 || hi < 0 {
			return never
		}
		if lo == 0 && hi == 0 {
			return always
		}
	case storage.Ne:
		if lo > 0 || hi < 0 {
			return always
		}
		if lo == 0 && hi == 0 {
			return never
		}
	case storage.Lt, storage.Le:
		if holds(l.op, hi) {
			return always
		}
		if !holds(l.op, lo) {
			return never
		}
	case storage.Gt, storage.Ge:
		if holds(l.op, lo) {
			return always
		}
		if !holds(l.op, hi) {
			return never
		}
	}
	return maybe
}

// compare orders a bound and a literal.
func (l *leaf) compare(a, b *value) int {
	switch l.typ.Kind {
	case schema.Float, schema.Double:
		return schema.CompareFloat(a.f64, b.f64)
	case schema.Decimal, schema.Timestamp, schema.TimestampTZ:
		return a.wide.Cmp(b.wide)
	case schema.String, schema.Varchar, schema.Binary:
		return bytes.Compare(a.text, b.text)
	}
	return cmp.Compare(a.i64, b.i64)
}

// judgeDictionary judges a leaf by the entries of a dictionary that all values
// that aren't NULL come from.
func (l *leaf) judgeDictionary(d *dictionary, nulls int64) (verdict, error) {
	if l.isNull {
		return maybe, nil
	}
	if err := l.learn(d); err != nil {
		return maybe, err
	}
	switch {
	case l.hits == 0:
		return never, nil
	case l.hits == d.n && nulls == 0:
		return always, nil
	}
	return maybe, nil
}

// learn works out the table of a dictionary.
func (l *leaf) learn(d *dictionary) error {
	if l.tableOf == d {
		return nil
	}
	l.table = maskOf(l.table, d.n)
	switch equal := l.op == storage.Eq || l.op == storage.Ne; {
	case d.phys == physBytes && equal && l.typ.Kind != schema.Char && len(l.values) <= longIn:
		if err := l.findValues(d); err != nil {
			return err
		}
	default:
		v := vector{n: d.n, phys: d.phys, i32: d.i32, i64: d.i64}
		if d.phys == physBytes {
			var err error
			if v.offsets, v.data, err = d.values(); err != nil {
				return err
			}
		}
		l.maskValues(l.table, &v)
	}
	l.tableOf, l.hits, l.hit = d, l.table.count(), 0
	if l.hits == 1 {
		for i, w := range l.table {
			if w != 0 {
				l.hit = int32(64*i + bits.TrailingZeros64(w))
			}
		}
	}
	return nil
}

// findValues sets the table's bits by looking each value up.
func (l *leaf) findValues(d *dictionary) error {
	clear(l.table)
	for i := range l.values {
		code, err := d.find(l.values[i].text)
		if err != nil {
			return err
		}
		if code >= 0 {
			l.table[code/64] |= 1 << (code & 63)
		}
	}
	if l.op == storage.Ne {
		l.table.not()
		l.table.trim(d.n)
	}
	return nil
}

// eval sets the bits of the rows that the leaf accepts.
func (l *leaf) eval(m mask, v *vector) error {
	switch {
	case l.isNull:
		m.fill(v.n)
		if v.valid != nil {
			m.andBits(v.valid, v.n)
		}
		if !l.not {
			m.not()
			m.trim(v.n)
		}
		return nil
	case v.codes != nil:
		if err := l.learn(v.dict); err != nil {
			return err
		}
		switch l.hits {
		case 0:
			clear(m)
		case 1:
			maskEq(m, v.codes, l.hit)
		default:
			maskCodes(m, v.codes, l.table)
		}
	default:
		l.maskValues(m, v)
	}
	if v.valid != nil {
		m.andBits(v.valid, v.n)
	}
	return nil
}

// maskValues evaluates the leaf on values, as if none were NULL.
func (l *leaf) maskValues(m mask, v *vector) {
	if len(l.values) == 1 {
		l.maskValue(m, v, l.op, &l.values[0])
		return
	}
	if l.texts != nil && v.phys == physBytes || l.ints != nil && (v.phys.isInteger()) {
		clear(m)
		for i := range v.n {
			var ok bool
			switch {
			case v.phys == physInt32 && v.i32 != nil:
				_, ok = l.ints[int64(v.i32[i])]
			case v.phys == physInt64 && v.i64 != nil:
				_, ok = l.ints[v.i64[i]]
			case v.offsets != nil:
				b := v.data[v.offsets[i]:v.offsets[i+1]]
				if l.typ.Kind == schema.Char {
					b = bytes.TrimRight(b, " ")
				}
				_, ok = l.texts[string(b)]
			}
			m[i/64] |= bit(ok) << (i & 63)
		}
		return
	}
	clear(m)
	l.buf = maskOf(l.buf, v.n)
	for i := range l.values {
		l.maskValue(l.buf, v, storage.Eq, &l.values[i])
		m.or(l.buf)
	}
}

// maskValue compares values with one literal.
func (l *leaf) maskValue(m mask, v *vector, op storage.Op, x *value) {
	switch v.phys {
	case physBool:
		m.fill(v.n)
		// 0 and 1 are the only values: try the comparison with both.
		zero, one := holds(op, cmp.Compare(0, x.i64)), holds(op, cmp.Compare(1, x.i64))
		switch {
		case !zero && !one:
			clear(m)
		case zero != one:
			m.andBits(v.bits, v.n)
			if zero {
				m.not()
				m.trim(v.n)
			}
		}
	case physInt32:
		if int64(int32(x.i64)) == x.i64 && x.fits {
			maskNumbers(m, sized(v.i32, v.n), op, int32(x.i64))
		} else {
			l.maskOutside(m, v.n, op, x)
		}
	case physInt64:
		if x.fits {
			maskNumbers(m, sized(v.i64, v.n), op, x.i64)
		} else {
			l.maskOutside(m, v.n, op, x)
		}
	case physFloat:
		// A literal that isn't a float is compared exactly, as double.
		if f := float32(x.f64); float64(f) == x.f64 || x.f64 != x.f64 {
			maskNumbers(m, sized(v.f32, v.n), op, f)
			return
		}
		clear(m)
		for i, f := range v.f32 {
			m[i/64] |= bit(holds(op, schema.CompareFloat(float64(f), x.f64))) << (i & 63)
		}
	case physDouble:
		maskNumbers(m, sized(v.f64, v.n), op, x.f64)
	case physFixed16:
		maskWide(m, sized(v.wide, v.n), op, x.wide)
	case physBytes:
		if v.offsets == nil {
			clear(m)
			return
		}
		maskText(m, v.offsets, v.data, op, x.text, l.typ.Kind == schema.Char)
	}
}

// maskOutside compares with a literal beyond all values of the column's width.
func (l *leaf) maskOutside(m mask, n int, op storage.Op, x *value) {
	c := -1 // every value is below the literal
	if x.fits && x.i64 < 0 || !x.fits && x.wide.Sign() < 0 {
		c = 1
	}
	clear(m)
	if holds(op, c) {
		m.fill(n)
	}
}

// eval sets the bits of the rows that the node accepts, asking column for the
// values of columns only when a bit depends on them.
func (n *node) eval(m mask, rows int, column func(int) (*vector, error)) error {
	switch n.verdict {
	case never:
		clear(m)
		return nil
	case always:
		m.fill(rows)
		return nil
	}
	if l := n.leaf; l != nil {
		if l.column < 0 {
			clear(m)
			if l.judgeNull() == always {
				m.fill(rows)
			}
			return nil
		}
		v, err := column(l.column)
		if err != nil {
			return err
		}
		return l.eval(m, v)
	}
	n.buf = maskOf(n.buf, rows)
	if n.or != nil {
		clear(m)
		for _, c := range n.or {
			if err := c.eval(n.buf, rows, column); err != nil {
				return err
			}
			m.or(n.buf)
		}
		return nil
	}
	if err := n.and[0].eval(m, rows, column); err != nil {
		return err
	}
	for _, c := range n.and[1:] {
		if m.count() == 0 {
			return nil
		}
		if c.verdict == always {
			continue
		}
		if err := c.eval(n.buf, rows, column); err != nil {
			return err
		}
		m.and(n.buf)
	}
	return nil
}

// order sorts the parts of every AND and OR by what they cost, cheap ones first.
func (n *node) order(cost func(column int) int) int {
	if n.leaf != nil {
		if n.leaf.column < 0 {
			return 0
		}
		return cost(n.leaf.column)
	}
	total := 0
	costs := map[*node]int{}
	parts := n.and
	if n.or != nil {
		parts = n.or
	}
	for _, c := range parts {
		costs[c] = c.order(cost)
		total += costs[c]
	}
	slices.SortStableFunc(parts, func(a, b *node) int { return cmp.Compare(costs[a], costs[b]) })
	return total
}

// Filter is a predicate bound to columns, for rows that don't come from a
// segment, or come from one but need version work before. Not safe for
// concurrent use: it remembers what it found out about dictionaries.
type Filter struct {
	root    *node
	columns schema.Columns
	buf     mask
	vectors []vector
	have    []bool
	dicts   []*dictionary
}

// NewFilter binds p to columns; a column of p that isn't among them reads as
// NULL. A nil p accepts every row.
func NewFilter(p storage.Predicate, columns schema.Columns) (*Filter, error) {
	f := &Filter{columns: columns, vectors: make([]vector, len(columns)), have: make([]bool, len(columns)), dicts: make([]*dictionary, len(columns))}
	if p == nil {
		return f, nil
	}
	var err error
	f.root, err = compile(p, func(id schema.ColumnID) (int, schema.Type) {
		i := columns.ByID(id)
		if i < 0 {
			return -1, schema.VoidType
		}
		return i, columns[i].Type
	})
	return f, err
}

// Select returns the positions among b's rows that the predicate accepts, nil
// when it accepts all of a batch without a selection. b's columns are those
// of NewFilter.
func (f *Filter) Select(b *batch.Batch) ([]int32, error) {
	if f.root == nil {
		return b.Sel, nil
	}
	clear(f.have)
	f.buf = maskOf(f.buf, b.Len)
	err := f.root.eval(f.buf, b.Len, func(i int) (*vector, error) {
		if !f.have[i] {
			v, err := vectorOf(b.Columns[i], f.columns[i].Type)
			if err != nil {
				return nil, err
			}
			if v.dict != nil {
				// Batches that share a dictionary share what was learnt of it.
				if d := f.dicts[i]; d != nil && d.data == v.dict.data {
					v.dict = d
				}
				f.dicts[i] = v.dict
			}
			f.vectors[i], f.have[i] = v, true
		}
		return &f.vectors[i], nil
	})
	if err != nil {
		return nil, err
	}
	if b.Sel == nil {
		if f.buf.count() == b.Len {
			return nil, nil
		}
		return f.buf.appendTo(make([]int32, 0, 64)), nil
	}
	out := make([]int32, 0, len(b.Sel))
	for _, i := range b.Sel {
		if f.buf[i/64]>>(i&63)&1 != 0 {
			out = append(out, i)
		}
	}
	return out, nil
}
