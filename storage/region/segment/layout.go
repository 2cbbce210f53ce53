package segment

import (
	"github.com/apache/arrow-go/v18/parquet"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	"github.com/parquet-go/parquet-go/format"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Field ids of the columns that Skep adds. Table columns have lower ones.
const (
	keyField       = 1<<30 + 0 // encoded row key
	beginField     = 1<<30 + 1 // begin timestamp
	tombstoneField = 1<<30 + 2
)

// physical is how a column's values lie in the file.
type physical uint8

const (
	physBool  physical = iota
	physInt32          // also tinyint, smallint, date and small decimals
	physInt64
	physFloat
	physDouble
	physFixed16 // 128-bit big-endian two's complement
	physBytes
)

// physicalOf returns how values of a type are stored.
func physicalOf(t schema.Type) (physical, bool) {
	switch t.Kind {
	case schema.Boolean:
		return physBool, true
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.Date:
		return physInt32, true
	case schema.BigInt:
		return physInt64, true
	case schema.Float:
		return physFloat, true
	case schema.Double:
		return physDouble, true
	case schema.Decimal:
		switch {
		case t.Precision <= 9:
			return physInt32, true
		case t.Precision <= 18:
			return physInt64, true
		}
		return physFixed16, true
	case schema.Timestamp, schema.TimestampTZ:
		return physFixed16, true
	case schema.String, schema.Char, schema.Varchar, schema.Binary:
		return physBytes, true
	}
	return 0, false
}

// parquetType is the Parquet type of p, as arrow-go and parquet-go name it.
func (p physical) parquetType() (parquet.Type, format.Type) {
	switch p {
	case physBool:
		return parquet.Types.Boolean, format.Boolean
	case physInt32:
		return parquet.Types.Int32, format.Int32
	case physInt64:
		return parquet.Types.Int64, format.Int64
	case physFloat:
		return parquet.Types.Float, format.Float
	case physDouble:
		return parquet.Types.Double, format.Double
	case physFixed16:
		return parquet.Types.FixedLenByteArray, format.FixedLenByteArray
	}
	return parquet.Types.ByteArray, format.ByteArray
}

// logicalType is what other Parquet tools are told of a type.
func logicalType(t schema.Type) pqschema.LogicalType {
	switch t.Kind {
	case schema.TinyInt:
		return pqschema.NewIntLogicalType(8, true)
	case schema.SmallInt:
		return pqschema.NewIntLogicalType(16, true)
	case schema.Decimal:
		return pqschema.NewDecimalLogicalType(int32(t.Precision), int32(t.Scale))
	case schema.String, schema.Char, schema.Varchar:
		return pqschema.StringLogicalType{}
	case schema.Date:
		return pqschema.DateLogicalType{}
	case schema.Timestamp, schema.TimestampTZ:
		return pqschema.NewDecimalLogicalType(38, 9)
	}
	return pqschema.NoLogicalType{}
}

// column is a column of a file: one of the table's or one that Skep adds.
type column struct {
	field int32
	name  string
	typ   schema.Type
	phys  physical
	null  bool  // may have nulls
	nest  *nest // of a nested column, or of the one that this is a leaf of
	level *nest // of a leaf of a nested column, when it is read
}

// layout lists the columns of a file: the table's, then _key, _ts and _del as
// the options ask for.
func layout(o *Options) ([]column, error) {
	names := map[string]bool{}
	var out []column
	for _, c := range o.Columns {
		p, ok := physicalOf(c.Type)
		var tree *nest
		if c.Type.IsNested() {
			var err error
			if tree, err = newNest(c.Name, c.Type, 0); err != nil {
				return nil, fault.Unsupportedf("column %s: %w", c.Name, err)
			}
		} else if !ok {
			return nil, fault.Unsupportedf("column %s of type %s in a table", c.Name, c.Type)
		}
		if c.ID < 0 || int32(c.ID) >= keyField {
			return nil, fault.Bugf("segment: column %s has id %d, which can't be a Parquet field id", c.Name, c.ID)
		}
		if names[c.Name] {
			return nil, fault.Bugf("segment: two columns are called %s", c.Name)
		}
		names[c.Name] = true
		// A tombstone has NULL in every column outside the key.
		null := !c.NotNull || o.Tombstones
		out = append(out, column{field: int32(c.ID), name: c.Name, typ: c.Type, phys: p, null: null, nest: tree})
	}
	extra := func(field int32, name string, t schema.Type) {
		for names[name] {
			name = "_" + name
		}
		p, _ := physicalOf(t)
		out = append(out, column{field: field, name: name, typ: t, phys: p})
	}
	if len(o.Key) > 0 && plainKey(o) < 0 {
		extra(keyField, "_key", schema.BinaryType)
	}
	if o.Versions {
		extra(beginField, "_ts", schema.BigIntType)
	}
	if o.Tombstones {
		extra(tombstoneField, "_del", schema.BooleanType)
	}
	return out, nil
}

// plainKey returns the position of the column whose values are the row keys in
// their order, so that a file needs no encoded key column; -1 without one.
// Floats are out for NaN and -0, which encode as less than they are, and char
// for its blanks.
func plainKey(o *Options) int {
	if len(o.Key) != 1 || o.Key[0].Desc || o.Partitioned {
		return -1
	}
	columns := o.Columns
	i := columns.ByID(o.Key[0].Column)
	if i < 0 {
		return -1
	}
	switch columns[i].Type.Kind {
	case schema.Float, schema.Double, schema.Char:
		return -1
	}
	return i
}

// parquetSchema returns the file's schema for arrow-go's writer.
func parquetSchema(columns []column) (*pqschema.GroupNode, error) {
	fields := make(pqschema.FieldList, len(columns))
	for i, c := range columns {
		rep := parquet.Repetitions.Required
		if c.null {
			rep = parquet.Repetitions.Optional
		}
		var err error
		if c.nest != nil {
			fields[i], err = c.nest.node(c.field)
		} else {
			fields[i], err = primitiveNode(c.name, rep, c.typ, c.field)
		}
		if err != nil {
			return nil, fault.Bugf("segment: column %s: %w", c.name, err)
		}
	}
	return pqschema.NewGroupNode("skep", parquet.Repetitions.Required, fields, -1)
}

// primitiveNode returns the Parquet schema of a column that isn't nested.
func primitiveNode(name string, rep parquet.Repetition, t schema.Type, field int32) (pqschema.Node, error) {
	p, _ := physicalOf(t)
	typ, _ := p.parquetType()
	length := -1
	if p == physFixed16 {
		length = 16
	}
	return pqschema.NewPrimitiveNodeLogical(name, rep, logicalType(t), typ, length, field)
}
