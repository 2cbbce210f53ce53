package segment

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// nest is a node of a nested column's type as Parquet stores it: lists, maps
// and structs are groups, and each leaf of the tree is a column of the file
// with definition and repetition levels (Melnik et al., "Dremel: Interactive
// Analysis of Web-Scale Datasets", 2010).
//
// A slot of a node is a place for one of its values: a row, an element of a
// list, a field of a struct, also of one that is NULL, for Arrow's structs have
// their fields then too. An entry of a leaf's levels begins a slot of a node
// above it (or of itself) if its repetition level is at most rep and its
// definition level at least slot; the slot isn't NULL from level def on.
type nest struct {
	name     string
	typ      schema.Type
	rep      int     // lists and maps around it
	slot     int     // see above
	def      int     // see above
	children []*nest // of an array its elements, of a map keys and values
	leaf     int     // of the first leaf: its position among the file's columns
	leaves   int     // how many there are; 1 for a leaf
}

// maxLevel bounds the levels: they are bytes when they are read.
const maxLevel = 100

// newNest makes the tree of a nested column whose leaves come from position
// leaf on.
func newNest(name string, t schema.Type, leaf int) (*nest, error) {
	n := &nest{name: name, typ: t, def: 1, leaf: leaf}
	return n, n.grow()
}

func (n *nest) grow() error {
	if n.def > maxLevel {
		return fault.Unsupportedf("a type that is nested so deep")
	}
	add := func(c *nest) error {
		c.leaf = n.leaf + n.leaves
		n.children = append(n.children, c)
		err := c.grow()
		n.leaves += c.leaves
		return err
	}
	element := func(name string, i, null int) *nest {
		return &nest{name: name, typ: n.typ.Nested.Fields[i].Type, rep: n.rep + 1, slot: n.def + 1, def: n.def + 1 + null}
	}
	switch n.typ.Kind {
	case schema.Array:
		return add(element("element", 0, 1))
	case schema.Map:
		if err := add(element("key", 0, 0)); err != nil {
			return err
		}
		return add(element("value", 1, 1))
	case schema.Struct, schema.Union:
		for _, f := range structFields(n.typ) {
			if err := add(&nest{name: f.Name, typ: f.Type, rep: n.rep, slot: n.slot, def: n.def + 1}); err != nil {
				return err
			}
		}
		return nil
	}
	if _, ok := physicalOf(n.typ); !ok {
		return fault.Unsupportedf("values of type %s inside a column", n.typ)
	}
	n.leaves = 1
	return nil
}

// structFields returns the fields of a struct, and of a union those of the
// struct that it is in Arrow: a tag, and a field an alternative.
func structFields(t schema.Type) []schema.Field {
	if t.Kind == schema.Struct {
		return t.Nested.Fields
	}
	out := []schema.Field{{Name: "tag", Type: schema.TinyIntType}}
	for i, f := range t.Nested.Fields {
		out = append(out, schema.Field{Name: fmt.Sprintf("f%d", i), Type: f.Type})
	}
	return out
}

// each calls f with every leaf, in order.
func (n *nest) each(f func(leaf *nest)) {
	if len(n.children) == 0 {
		f(n)
	}
	for _, c := range n.children {
		c.each(f)
	}
}

// columns appends the tree's leaves as columns of the file.
func (n *nest) columns(field int32, out []column) []column {
	n.each(func(l *nest) {
		p, _ := physicalOf(l.typ)
		out = append(out, column{field: field, name: n.name, typ: l.typ, phys: p, null: true, nest: n, level: l})
	})
	return out
}

// node returns the Parquet schema of the tree.
func (n *nest) node(id int32) (pqschema.Node, error) {
	rep := parquet.Repetitions.Optional
	if n.def == n.slot {
		rep = parquet.Repetitions.Required
	}
	var fields pqschema.FieldList
	for _, c := range n.children {
		f, err := c.node(-1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	switch n.typ.Kind {
	case schema.Array, schema.Map:
		name, logical := "list", pqschema.LogicalType(pqschema.NewListLogicalType())
		if n.typ.Kind == schema.Map {
			name, logical = "key_value", pqschema.MapLogicalType{}
		}
		entry, err := pqschema.NewGroupNode(name, parquet.Repetitions.Repeated, fields, -1)
		if err != nil {
			return nil, err
		}
		return pqschema.NewGroupNodeLogical(n.name, rep, pqschema.FieldList{entry}, logical, id)
	case schema.Struct, schema.Union:
		return pqschema.NewGroupNode(n.name, rep, fields, id)
	}
	return primitiveNode(n.name, rep, n.typ, id)
}

// shred are the levels and the values of a leaf: entry i has level reps[i],
// defs[i], and where the latter is the leaf's own, the next of at is the
// position of its value in values.
type shred struct {
	reps, defs []int16
	at         []int32
	values     arrow.Array
}

// opened is the array of a node on the way to a leaf, opened for reading single
// values.
type opened struct {
	n       *nest
	valid   []byte
	offsets []int32 // of a list or map
	child   *opened // nil: it is the leaf
}

// openNest opens the arrays on the way to a leaf.
func openNest(n *nest, a arrow.Array, leaf int, out *shred) *opened {
	o := &opened{n: n, valid: batch.Validity(a)}
	if len(n.children) == 0 {
		out.values = a
		return o
	}
	values := a
	if n.typ.Kind == schema.Array || n.typ.Kind == schema.Map {
		o.offsets, values = batch.ListOf(a)
	}
	for i, c := range n.children {
		if leaf < c.leaf || leaf >= c.leaf+c.leaves {
			continue
		}
		if n.typ.Kind != schema.Array {
			values = batch.FieldOf(values, i)
		}
		o.child = openNest(c, values, leaf, out)
		break
	}
	return o
}

// put appends what slot i of a node has to say of the leaf. Its first entry has
// repetition level rep; level is the definition level that is reached without
// a value in the slot.
func (o *opened) put(out *shred, i, rep, level int) error {
	n := o.n
	if o.valid != nil && !batch.BitSet(o.valid, i) {
		if n.def == n.slot {
			return fault.Userf("a map has a NULL key")
		}
		out.stop(rep, level)
		return nil
	}
	switch {
	case o.child == nil:
		out.stop(rep, n.def)
		out.at = append(out.at, int32(i))
	case o.offsets == nil:
		return o.child.put(out, i, rep, n.def)
	case o.offsets[i] == o.offsets[i+1]:
		out.stop(rep, n.def)
	default:
		for k := o.offsets[i]; k < o.offsets[i+1]; k++ {
			if err := o.child.put(out, int(k), rep, n.def+1); err != nil {
				return err
			}
			rep = n.rep + 1
		}
	}
	return nil
}

func (s *shred) stop(rep, level int) {
	s.reps, s.defs = append(s.reps, int16(rep)), append(s.defs, int16(level))
}

// shredLeaf shreds an array of a nested column for one of its leaves, adding to
// the slices of out.
func shredLeaf(n *nest, a arrow.Array, leaf int, out *shred) error {
	o := openNest(n, a, leaf, out)
	for i := range a.Len() {
		if err := o.put(out, i, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

// match holds the tree against the elements of a Parquet schema from position i
// on, and returns the position after it.
func (n *nest) match(elements []format.SchemaElement, i int) (int, error) {
	bad := func() (int, error) {
		return 0, fault.Bugf("column %s isn't stored as a %s", n.name, n.typ)
	}
	if i >= len(elements) || elements[i].Name != n.name {
		return bad()
	}
	e := &elements[i]
	optional := e.RepetitionType.V == format.Optional
	if optional != (n.def > n.slot) && n.rep+n.slot > 0 {
		return bad()
	}
	i++
	if len(n.children) == 0 {
		p, _ := physicalOf(n.typ)
		if _, want := p.parquetType(); !e.Type.Valid || e.Type.V != want {
			return bad()
		}
		return i, nil
	}
	if n.typ.Kind == schema.Array || n.typ.Kind == schema.Map {
		if i >= len(elements) || elements[i].RepetitionType.V != format.Repeated || int(elements[i].NumChildren.V) != len(n.children) {
			return bad()
		}
		i++
	} else if int(e.NumChildren.V) != len(n.children) {
		return bad()
	}
	for _, c := range n.children {
		var err error
		if i, err = c.match(elements, i); err != nil {
			return 0, err
		}
	}
	return i, nil
}
