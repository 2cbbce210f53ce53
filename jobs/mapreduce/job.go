// Package mapreduce is how map/reduce jobs are written in Go. A job is a value:
// where its records come from, a map function that turns each into keyed
// values, and a reduce function that gets the values of each key and gives rows
// of output.
//
//	func main() {
//		mapreduce.Main(mapreduce.Job[string, string, int64, Count]{
//			Name:  "wordcount",
//			Input: mapreduce.Lines(),
//			Map: func(t *mapreduce.Task, line string, emit func(string, int64)) error {
//				for word := range strings.FieldsSeq(line) {
//					emit(word, 1)
//				}
//				return nil
//			},
//			Combine: func(a, b int64) int64 { return a + b },
//			Reduce: func(t *mapreduce.Task, word string, counts iter.Seq[int64], emit func(Count)) error {
//				var n int64
//				for c := range counts {
//					n += c
//				}
//				emit(Count{word, n})
//				return nil
//			},
//		})
//	}
//
// `skep job submit ./program` ships the program to the workers, which run it as
// a child process for each task (package pipe has what they say to each other).
// Programs that are part of Skep itself run in the worker's process.
//
// Between map and reduce, records are bytes (see Codec): sorted and combined in
// memory, in runs on disk beyond a budget, and merged.
package mapreduce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"regexp"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// Order says how something is sorted.
type Order uint8

// The orders; the zero value is none.
const (
	Unsorted Order = iota
	Ascending
	Descending
)

// Mapper is a map function with state: one is made for each task, used by one
// goroutine.
type Mapper[I, K, V any] interface {
	Setup(t *Task) error
	// Map takes a record. What emit is given may be kept by the engine: strings
	// and slices must not change afterwards.
	Map(t *Task, in I, emit func(K, V)) error
	// Cleanup comes after the last record, if nothing failed.
	Cleanup(t *Task, emit func(K, V)) error
}

// Reducer is a reduce function with state, as Mapper is for map.
type Reducer[K, V, O any] interface {
	Setup(t *Task) error
	// Reduce takes a key and its values, which can be walked over once. Keys come
	// in order; what isn't read of the values is skipped.
	Reduce(t *Task, key K, values iter.Seq[V], emit func(O)) error
	Cleanup(t *Task, emit func(O)) error
}

// Job is a map/reduce program over records I, with keys K and values V between
// map and reduce, and output rows O: a struct whose exported fields are the
// columns (see RowFields), or a single value.
type Job[I, K, V, O any] struct {
	Name  string // letters, digits, - and _
	About string // a line for people
	Input Source[I]

	// One of Map and NewMapper, one of Reduce and NewReducer.
	Map        func(t *Task, in I, emit func(K, V)) error
	NewMapper  func() Mapper[I, K, V]
	Reduce     func(t *Task, key K, values iter.Seq[V], emit func(O)) error
	NewReducer func() Reducer[K, V, O]

	// Combine, if not nil, makes one value of two of the same key, before they
	// are sent to the reduces. It must be associative and commutative, and is
	// called any number of times; it may change and return a.
	Combine func(a, b V) V
	// Partition, if not nil, says which of n reduces a key goes to, 0..n-1. It
	// must always say the same. Default: by a hash.
	Partition func(key K, n int) int
	// Keys is the order in which keys come to a reduce; Unsorted is Ascending.
	Keys Order
	// Values is the order of the values of a key (secondary sort). Jobs with a
	// Combine leave it.
	Values Order
	// KeyCodec and ValueCodec replace those of CodecFor.
	KeyCodec   Codec[K]
	ValueCodec Codec[V]
}

// MapOnly is a program without reduces: what its map emits are the rows of
// output.
type MapOnly[I, O any] struct {
	Name      string
	About     string
	Input     Source[I]
	Map       func(t *Task, in I, emit func(O)) error
	NewMapper func() RowMapper[I, O]
}

// RowMapper is the map function of a MapOnly with state.
type RowMapper[I, O any] interface {
	Setup(t *Task) error
	Map(t *Task, in I, emit func(O)) error
	Cleanup(t *Task, emit func(O)) error
}

// Program is a Job or MapOnly of any types.
type Program interface {
	// Describe says what the program is, or everything that is wrong with it.
	Describe() (Description, error)
	run(ctx context.Context, a *Attempt) error
}

// InputKind says what a program reads.
type InputKind string

// The kinds of input.
const (
	InputLines InputKind = "lines" // of text files
	InputRows  InputKind = "rows"  // of a table
)

// Description is what the engine must know of a program.
type Description struct {
	Name  string
	About string
	Input InputKind
	// Columns are those that the program reads, by name; nil: all, with Input
	// rows.
	Columns []string
	MapOnly bool
	Fields  []schema.Field // of the output
}

var programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

func describe[I, O any](name, about string, in Source[I], mapOnly bool, faults []error) (Description, error) {
	d := Description{Name: name, About: about, Input: in.kind, Columns: in.columns, MapOnly: mapOnly}
	if !programName.MatchString(name) {
		faults = append(faults, fmt.Errorf("the name %q: want letters, digits, - and _", name))
	}
	if in.bind == nil {
		faults = append(faults, errors.New("no Input"))
	} else if in.err != nil {
		faults = append(faults, in.err)
	}
	var err error
	if d.Fields, err = RowFields[O](); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return d, fault.Userf("program %s: %w", name, errors.Join(faults...))
	}
	return d, nil
}

// Describe implements Program.
func (j Job[I, K, V, O]) Describe() (Description, error) {
	var faults []error
	if (j.Map == nil) == (j.NewMapper == nil) {
		faults = append(faults, errors.New("want one of Map and NewMapper"))
	}
	if (j.Reduce == nil) == (j.NewReducer == nil) {
		faults = append(faults, errors.New("want one of Reduce and NewReducer (MapOnly is for jobs without)"))
	}
	if j.Values != Unsorted && j.Combine != nil {
		faults = append(faults, errors.New("values that are combined can't be sorted"))
	}
	if j.Keys > Descending || j.Values > Descending {
		faults = append(faults, errors.New("an order that doesn't exist"))
	}
	if _, err := j.records(); err != nil {
		faults = append(faults, err)
	}
	return describe[I, O](j.Name, j.About, j.Input, false, faults)
}

// Describe implements Program.
func (j MapOnly[I, O]) Describe() (Description, error) {
	var faults []error
	if (j.Map == nil) == (j.NewMapper == nil) {
		faults = append(faults, errors.New("want one of Map and NewMapper"))
	}
	return describe[I, O](j.Name, j.About, j.Input, true, faults)
}

// records is what lies between map and reduce.
type records[K, V any] struct {
	KeyCodec   Codec[K]
	ValueCodec Codec[V]
	Partition  func(K, int) int
	Combine    func(a, b V) V
	order      order
}

func (j Job[I, K, V, O]) records() (*records[K, V], error) {
	r := &records[K, V]{KeyCodec: j.KeyCodec, ValueCodec: j.ValueCodec, Partition: j.Partition, Combine: j.Combine,
		order: order{descending: j.Keys == Descending, values: j.Values}}
	var err, valErr error
	if r.KeyCodec == nil {
		if r.KeyCodec, err = CodecFor[K](); err != nil {
			err = fmt.Errorf("key: %w", err)
		}
	}
	if r.ValueCodec == nil {
		if r.ValueCodec, valErr = CodecFor[V](); valErr != nil {
			valErr = fmt.Errorf("value: %w", valErr)
		}
	}
	return r, errors.Join(err, valErr)
}

// mapFunc, reduceFunc and rowFunc are functions without state as what has one.
type mapFunc[I, K, V any] func(*Task, I, func(K, V)) error

func (mapFunc[I, K, V]) Setup(*Task) error                          { return nil }
func (f mapFunc[I, K, V]) Map(t *Task, in I, emit func(K, V)) error { return f(t, in, emit) }
func (mapFunc[I, K, V]) Cleanup(*Task, func(K, V)) error            { return nil }

type reduceFunc[K, V, O any] func(*Task, K, iter.Seq[V], func(O)) error

func (reduceFunc[K, V, O]) Setup(*Task) error { return nil }
func (f reduceFunc[K, V, O]) Reduce(t *Task, k K, v iter.Seq[V], emit func(O)) error {
	return f(t, k, v, emit)
}
func (reduceFunc[K, V, O]) Cleanup(*Task, func(O)) error { return nil }

type rowFunc[I, O any] func(*Task, I, func(O)) error

func (rowFunc[I, O]) Setup(*Task) error                       { return nil }
func (f rowFunc[I, O]) Map(t *Task, in I, emit func(O)) error { return f(t, in, emit) }
func (rowFunc[I, O]) Cleanup(*Task, func(O)) error            { return nil }

// Permanent marks an error of a map or reduce function as one that would come
// again: the job fails at once. Other errors fail the attempt, and the task is
// tried again a few times.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Cause: err}
}

// userError classes an error of user code.
func userError(what string, err error) error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fault.Retryablef("%s: %w", what, err)
}

// typeName is for messages.
func typeName[T any]() string { return reflect.TypeFor[T]().String() }
