package mapreduce

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// RowFields returns the columns of output rows of type O: the exported fields of
// a struct, by the names that Records uses, or one column named value. Their
// types:
//
//	bool                          boolean
//	int8, int16, int32, int64     tinyint, smallint, int, bigint; int is bigint
//	float32, float64              float, double
//	string                        string
//	[]byte                        binary
//	time.Time                     timestamp: its date and clock in UTC
//
// A pointer to one of these is that column, and nil is NULL.
func RowFields[O any]() ([]schema.Field, error) {
	fields, err := rowFields(reflect.TypeFor[O]())
	if err != nil {
		return nil, err
	}
	out := make([]schema.Field, len(fields))
	for i, f := range fields {
		t, err := columnType(f.typ)
		if err != nil {
			return nil, fmt.Errorf("output %s: field %s: %w", typeName[O](), f.name, err)
		}
		out[i] = schema.Field{Name: f.column, Type: t}
	}
	return out, nil
}

// rowFields is structFields, and one field for a single value.
func rowFields(t reflect.Type) ([]structField, error) {
	if t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]() {
		fields, err := structFields(t)
		if err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		return fields, nil
	}
	return []structField{{name: "value", column: "value", typ: t}}, nil
}

func columnType(g reflect.Type) (schema.Type, error) {
	if g.Kind() == reflect.Pointer {
		if g.Elem().Kind() == reflect.Pointer {
			return schema.Type{}, fmt.Errorf("%s can't be a column", g)
		}
		return columnType(g.Elem())
	}
	switch g.Kind() {
	case reflect.Bool:
		return schema.BooleanType, nil
	case reflect.Int8:
		return schema.TinyIntType, nil
	case reflect.Int16:
		return schema.SmallIntType, nil
	case reflect.Int32:
		return schema.IntType, nil
	case reflect.Int64, reflect.Int:
		return schema.BigIntType, nil
	case reflect.Float32:
		return schema.FloatType, nil
	case reflect.Float64:
		return schema.DoubleType, nil
	case reflect.String:
		return schema.StringType, nil
	case reflect.Slice:
		if g.Elem().Kind() == reflect.Uint8 {
			return schema.BinaryType, nil
		}
	case reflect.Struct:
		if g == reflect.TypeFor[time.Time]() {
			return schema.TimestampType, nil
		}
	}
	return schema.Type{}, fmt.Errorf("%s can't be a column", g)
}

// rowWriter makes batches of output rows.
type rowWriter[O any] struct {
	to      func(*batch.Batch) error
	columns []outColumn
	n       int
	bytes   int
	rows    int64
	err     error // the first
}

type outColumn struct {
	offset uintptr
	add    func(p unsafe.Pointer) (bytes int)
	finish func() arrow.Array
}

func newRowWriter[O any](to func(*batch.Batch) error) (*rowWriter[O], error) {
	fields, err := rowFields(reflect.TypeFor[O]())
	if err != nil {
		return nil, err
	}
	w := &rowWriter[O]{to: to}
	for _, f := range fields {
		c, err := columnOf(f.typ)
		if err != nil {
			return nil, err
		}
		c.offset = f.offset
		w.columns = append(w.columns, c)
	}
	return w, nil
}

// emit takes a row.
func (w *rowWriter[O]) emit(row O) {
	if w.err != nil {
		return
	}
	for i := range w.columns {
		w.bytes += w.columns[i].add(unsafe.Add(unsafe.Pointer(&row), w.columns[i].offset))
	}
	w.n++
	if w.n == batch.MaxRows || w.bytes > 1<<20 {
		w.flush()
	}
}

func (w *rowWriter[O]) flush() {
	b := &batch.Batch{Len: w.n, Columns: make([]arrow.Array, len(w.columns))}
	for i := range w.columns {
		b.Columns[i] = w.columns[i].finish()
	}
	w.rows += int64(w.n)
	w.n, w.bytes = 0, 0
	w.err = w.to(b)
}

// finish hands on the last rows and returns the first error.
func (w *rowWriter[O]) finish() error {
	if w.err == nil && w.n > 0 {
		w.flush()
	}
	return w.err
}

// columnOf returns a column for values of a Go type.
func columnOf(g reflect.Type) (outColumn, error) {
	t, err := columnType(g)
	if err != nil {
		return outColumn{}, err
	}
	pointer := g.Kind() == reflect.Pointer
	if pointer {
		g = g.Elem()
	}
	switch t.Kind {
	case schema.Boolean:
		return boolColumn(pointer), nil
	case schema.TinyInt:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) int8 { return *(*int8)(p) }), nil
	case schema.SmallInt:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) int16 { return *(*int16)(p) }), nil
	case schema.Int:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) int32 { return *(*int32)(p) }), nil
	case schema.BigInt:
		if g.Kind() == reflect.Int {
			return fixedColumn(t, pointer, func(p unsafe.Pointer) int64 { return int64(*(*int)(p)) }), nil
		}
		return fixedColumn(t, pointer, func(p unsafe.Pointer) int64 { return *(*int64)(p) }), nil
	case schema.Float:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) float32 { return *(*float32)(p) }), nil
	case schema.Double:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) float64 { return *(*float64)(p) }), nil
	case schema.Timestamp:
		return fixedColumn(t, pointer, func(p unsafe.Pointer) decimal128.Num {
			v := *(*time.Time)(p)
			return schema.NanosOf(v.Unix(), v.Nanosecond())
		}), nil
	}
	if g.Kind() == reflect.String {
		return textColumn(t, pointer, func(p unsafe.Pointer) []byte { s := *(*string)(p); return unsafe.Slice(unsafe.StringData(s), len(s)) }), nil
	}
	return textColumn(t, pointer, func(p unsafe.Pointer) []byte { return *(*[]byte)(p) }), nil
}

// validity collects which rows are not NULL; nil while all are.
type validity struct {
	bits []byte
	n    int
}

// add takes a row; p is the field. It returns where the value is, nil for NULL.
func (v *validity) add(p unsafe.Pointer, pointer bool) unsafe.Pointer {
	if pointer {
		p = *(*unsafe.Pointer)(p)
	}
	i := v.n
	v.n++
	if p == nil && v.bits == nil {
		v.bits = make([]byte, batch.MaxRows/8)
		for k := range i {
			v.bits[k/8] |= 1 << (k % 8)
		}
	}
	if p != nil && v.bits != nil {
		v.bits[i/8] |= 1 << (i % 8)
	}
	return p
}

func (v *validity) take() []byte {
	bits := v.bits
	v.bits, v.n = nil, 0
	return bits
}

func fixedColumn[T batch.Fixed](t schema.Type, pointer bool, get func(unsafe.Pointer) T) outColumn {
	var values []T
	valid := &validity{}
	size := int(sizeOf[T]())
	return outColumn{
		add: func(p unsafe.Pointer) int {
			var v T
			if p = valid.add(p, pointer); p != nil {
				v = get(p)
			}
			values = append(values, v)
			return size
		},
		finish: func() arrow.Array {
			out := batch.NewFixed(t.Arrow(), values, valid.take())
			values = make([]T, 0, cap(values))
			return out
		},
	}
}

func boolColumn(pointer bool) outColumn {
	var bits []byte
	n := 0
	valid := &validity{}
	return outColumn{
		add: func(p unsafe.Pointer) int {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			if p = valid.add(p, pointer); p != nil && *(*bool)(p) {
				bits[n/8] |= 1 << (n % 8)
			}
			n++
			return 1
		},
		finish: func() arrow.Array {
			out := batch.NewBoolean(bits, n, valid.take())
			bits, n = nil, 0
			return out
		},
	}
}

func textColumn(t schema.Type, pointer bool, get func(unsafe.Pointer) []byte) outColumn {
	off, data := []int32{0}, []byte{}
	valid := &validity{}
	return outColumn{
		add: func(p unsafe.Pointer) int {
			var v []byte
			if p = valid.add(p, pointer); p != nil {
				v = get(p)
			}
			data = append(data, v...)
			off = append(off, int32(len(data)))
			return len(v) + 4
		},
		finish: func() arrow.Array {
			out := batch.NewText(t.Arrow(), off, data, valid.take())
			off, data = append(make([]int32, 0, cap(off)), 0), make([]byte, 0, cap(data))
			return out
		},
	}
}
