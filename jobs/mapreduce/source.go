package mapreduce

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
)

// Source is where the records of a program come from, and how they become
// values of Go. Make one with Lines, Records or Batches.
type Source[I any] struct {
	kind    InputKind
	columns []string
	err     error
	// bind looks at the columns once and returns what feeds the records of a
	// batch to a function.
	bind func(fields []schema.Field) (feed[I], error)
}

type feed[I any] func(b *batch.Batch, f func(I) error) error

// Lines reads text files: a record is a line, without its line end. Lines need
// not be UTF-8.
func Lines() Source[string] {
	return Source[string]{kind: InputLines, bind: func(fields []schema.Field) (feed[string], error) {
		if len(fields) != 1 || !fields[0].Type.IsText() {
			return nil, fault.Bugf("mapreduce: lines of %d columns", len(fields))
		}
		return func(b *batch.Batch, f func(string) error) error {
			t := batch.TextOf(b.Columns[0])
			return rows(b, func(i int) error { return f(t.String(i)) })
		}, nil
	}}
}

// Batches reads the rows of a table as Arrow arrays, thousands at a time; with
// the named columns, in that order, or all. For programs that must be fast.
func Batches(columns ...string) Source[*batch.Batch] {
	return Source[*batch.Batch]{kind: InputRows, columns: columns, bind: func(fields []schema.Field) (feed[*batch.Batch], error) {
		at, err := find(fields, columns)
		if err != nil {
			return nil, err
		}
		return func(b *batch.Batch, f func(*batch.Batch) error) error {
			if columns != nil {
				picked := &batch.Batch{Len: b.Len, Sel: b.Sel, Columns: make([]arrow.Array, len(at))}
				for i, c := range at {
					picked.Columns[i] = b.Columns[c]
				}
				b = picked
			}
			return f(b)
		}, nil
	}}
}

// Records reads the rows of a table into structs: each exported field is the
// column of its name (in lower case), or that of its tag `skep:"name"`; `skep:"-"`
// is left out. Only these columns are read. NULL is nil in a pointer and the zero
// value elsewhere. Column types and those of fields:
//
//	boolean               bool
//	tinyint .. bigint     int8 .. int64, int, at least as wide
//	float, double         float64, or float32 for float
//	binary                []byte
//	date, timestamp       time.Time, in UTC
//	every type            string, in Hive's rendering
func Records[T any]() Source[T] {
	s := Source[T]{kind: InputRows}
	fields, err := structFields(reflect.TypeFor[T]())
	if err != nil {
		s.err = fmt.Errorf("records: %w", err)
	}
	s.columns = []string{}
	for _, f := range fields {
		s.columns = append(s.columns, f.column)
	}
	s.bind = func(have []schema.Field) (feed[T], error) {
		if s.err != nil {
			return nil, s.err
		}
		at, err := find(have, s.columns)
		if err != nil {
			return nil, err
		}
		loaders := make([]loader, len(fields))
		for i, f := range fields {
			if loaders[i], err = loaderOf(have[at[i]].Type, f.typ); err != nil {
				return nil, fault.Userf("column %s into field %s: %w", f.column, f.name, err)
			}
		}
		return func(b *batch.Batch, f func(T) error) error {
			set := make([]func(i int, p unsafe.Pointer), len(fields))
			for i := range fields {
				set[i] = loaders[i](b.Columns[at[i]])
			}
			return rows(b, func(row int) error {
				var v T
				for i := range fields {
					set[i](row, unsafe.Add(unsafe.Pointer(&v), fields[i].offset))
				}
				return f(v)
			})
		}, nil
	}
	return s
}

// rows calls f for the selected rows of a batch.
func rows(b *batch.Batch, f func(i int) error) error {
	if b.Sel != nil {
		for _, i := range b.Sel {
			if err := f(int(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range b.Len {
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// find returns the positions of columns by name.
func find(fields []schema.Field, names []string) ([]int, error) {
	var at []int
	var known []string
	for _, f := range fields {
		known = append(known, f.Name)
	}
	for _, n := range names {
		found := -1
		for i, f := range fields {
			if strings.EqualFold(f.Name, n) {
				found = i
			}
		}
		if found < 0 {
			return nil, &fault.Error{Class: fault.User, SQLState: fault.StateUnknownCol,
				Message: fmt.Sprintf("the input has no column %q", n), Hint: nearest.Hint(n, known)}
		}
		at = append(at, found)
	}
	return at, nil
}

// structField is a field that is a column.
type structField struct {
	name, column string
	typ          reflect.Type
	offset       uintptr
}

func structFields(t reflect.Type) ([]structField, error) {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil, fmt.Errorf("%s is not a struct", t)
	}
	var out []structField
	seen := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		column := f.Tag.Get("skep")
		switch {
		case column == "-":
			continue
		case !f.IsExported():
			return nil, fmt.Errorf("field %s of %s is not exported: leave it out with a tag `skep:\"-\"`", f.Name, t)
		case column == "":
			column = strings.ToLower(f.Name)
		}
		if seen[strings.ToLower(column)] {
			return nil, fmt.Errorf("two fields of %s are column %s", t, column)
		}
		seen[strings.ToLower(column)] = true
		out = append(out, structField{f.Name, column, f.Type, f.Offset})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no exported fields", t)
	}
	return out, nil
}

// loader returns what puts row i of an array where a field is.
type loader func(a arrow.Array) func(i int, p unsafe.Pointer)

// loaderOf returns the loader of a column type into a Go type.
func loaderOf(t schema.Type, g reflect.Type) (loader, error) {
	if g.Kind() == reflect.Pointer {
		inner, err := loaderOf(t, g.Elem())
		if err != nil {
			return nil, err
		}
		elem := g.Elem()
		return func(a arrow.Array) func(int, unsafe.Pointer) {
			set := inner(a)
			return func(i int, p unsafe.Pointer) {
				if a.IsNull(i) {
					return
				}
				to := reflect.New(elem).UnsafePointer()
				set(i, to)
				*(*unsafe.Pointer)(p) = to
			}
		}, nil
	}
	if g.Kind() == reflect.String {
		return textLoader(t), nil
	}
	switch t.Kind {
	case schema.Boolean:
		if g.Kind() == reflect.Bool {
			return func(a arrow.Array) func(int, unsafe.Pointer) {
				bits := batch.Bits(a)
				return notNull(a, func(i int, p unsafe.Pointer) { *(*bool)(p) = batch.BitSet(bits, i) })
			}, nil
		}
	case schema.TinyInt:
		return intLoader[int8](g, 8)
	case schema.SmallInt:
		return intLoader[int16](g, 16)
	case schema.Int:
		return intLoader[int32](g, 32)
	case schema.BigInt:
		return intLoader[int64](g, 64)
	case schema.Float:
		switch g.Kind() {
		case reflect.Float32:
			return fixedLoader[float32](func(p unsafe.Pointer, v float32) { *(*float32)(p) = v }), nil
		case reflect.Float64:
			return fixedLoader[float32](func(p unsafe.Pointer, v float32) { *(*float64)(p) = float64(v) }), nil
		}
	case schema.Double:
		if g.Kind() == reflect.Float64 {
			return fixedLoader[float64](func(p unsafe.Pointer, v float64) { *(*float64)(p) = v }), nil
		}
	case schema.Binary:
		if g.Kind() == reflect.Slice && g.Elem().Kind() == reflect.Uint8 {
			return func(a arrow.Array) func(int, unsafe.Pointer) {
				text := batch.TextOf(a)
				return notNull(a, func(i int, p unsafe.Pointer) { *(*[]byte)(p) = text.Bytes(i) })
			}, nil
		}
	case schema.Date:
		if g == reflect.TypeFor[time.Time]() {
			return fixedLoader[int32](func(p unsafe.Pointer, v int32) { *(*time.Time)(p) = time.Unix(int64(v)*86400, 0).UTC() }), nil
		}
	case schema.Timestamp, schema.TimestampTZ:
		if g == reflect.TypeFor[time.Time]() {
			return fixedLoader[decimal128.Num](func(p unsafe.Pointer, v decimal128.Num) {
				s, n, _ := schema.SecondsOf(v)
				*(*time.Time)(p) = time.Unix(s, int64(n)).UTC()
			}), nil
		}
	}
	return nil, fmt.Errorf("a %s can't be read into a %s", t, g)
}

func notNull(a arrow.Array, set func(int, unsafe.Pointer)) func(int, unsafe.Pointer) {
	if a.NullN() == 0 {
		return set
	}
	return func(i int, p unsafe.Pointer) {
		if !a.IsNull(i) {
			set(i, p)
		}
	}
}

func fixedLoader[T batch.Fixed](put func(p unsafe.Pointer, v T)) loader {
	return func(a arrow.Array) func(int, unsafe.Pointer) {
		values := batch.Values[T](a)
		return notNull(a, func(i int, p unsafe.Pointer) { put(p, values[i]) })
	}
}

func intLoader[T int8 | int16 | int32 | int64](g reflect.Type, bits int) (loader, error) {
	switch g.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Int:
	default:
		return nil, fmt.Errorf("an integer can't be read into a %s", g)
	}
	if g.Bits() < bits {
		return nil, fmt.Errorf("an integer of %d bits can't be read into a %s", bits, g)
	}
	switch g.Bits() {
	case 8:
		return fixedLoader[T](func(p unsafe.Pointer, v T) { *(*int8)(p) = int8(v) }), nil
	case 16:
		return fixedLoader[T](func(p unsafe.Pointer, v T) { *(*int16)(p) = int16(v) }), nil
	case 32:
		return fixedLoader[T](func(p unsafe.Pointer, v T) { *(*int32)(p) = int32(v) }), nil
	}
	return fixedLoader[T](func(p unsafe.Pointer, v T) { *(*int64)(p) = int64(v) }), nil
}

// textLoader reads any type as text.
func textLoader(t schema.Type) loader {
	return func(a arrow.Array) func(int, unsafe.Pointer) {
		if t.Kind == schema.String || t.Kind == schema.Varchar {
			text := batch.TextOf(a)
			return notNull(a, func(i int, p unsafe.Pointer) { *(*string)(p) = text.String(i) })
		}
		return notNull(a, func(i int, p unsafe.Pointer) { *(*string)(p) = string(schema.AppendText(nil, t, a, i)) })
	}
}
