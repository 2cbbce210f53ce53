// Package pipe is what Skep and a program that it runs as a child process say to
// each other: messages over two pipes, descriptor 3 into the child and
// descriptor 4 out of it. docs/format/child.md describes every byte.
package pipe

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/batch/frame"
	"github.com/skepdb/skep/schema"
)

// Version is the protocol's. Both sides say theirs first; they must be equal.
const Version = 1

// Kind says what a message is.
type Kind byte

// The kinds of messages.
const (
	KindHello    Kind = 'H' // both ways, first: JSON, Task one way and Hello the other
	KindFrame    Kind = 'B' // both ways: a frame of a batch; outwards after its partition
	KindEnd      Kind = 'E' // to the child: the input is complete
	KindPrograms Kind = 'P' // from the child: JSON, []Description
	KindAlive    Kind = 'A' // from the child: slow, but not stuck
	KindDone     Kind = 'D' // from the child, last: JSON, Done
)

const (
	headerSize = 8
	// maxPayload is the most that a message may have.
	maxPayload = 1 << 20
)

// ErrGarbage is an error of bytes that are no message, or one that has no place
// there.
var ErrGarbage = errors.New("pipe: not what the protocol says")

// ErrEnded is an error of a pipe that ends before what is said over it does.
var ErrEnded = errors.New("pipe: it ends too early")

func garbagef(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrGarbage, fmt.Sprintf(format, args...))
}

// Column is a column's name and type, as schema.Type.String writes it.
type Column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// Columns returns fields as columns.
func Columns(fields []schema.Field) []Column {
	out := []Column{}
	for _, f := range fields {
		out = append(out, Column{f.Name, f.Type.String()})
	}
	return out
}

// Fields is the inverse of Columns.
func Fields(columns []Column) ([]schema.Field, error) {
	var out []schema.Field
	for _, c := range columns {
		t, err := schema.ParseType(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		out = append(out, schema.Field{Name: c.Name, Type: t})
	}
	return out, nil
}

// Task is the first message to the child.
type Task struct {
	Version int `json:"version"`
	// Describe asks for the programs; then there is no more of a task.
	Describe   bool              `json:"describe,omitempty"`
	Program    string            `json:"program,omitempty"`
	Reduce     bool              `json:"reduce,omitempty"`
	Index      int               `json:"index,omitempty"`
	Partitions int               `json:"partitions,omitempty"` // of a map's output
	Label      string            `json:"label,omitempty"`
	Params     map[string]string `json:"params,omitempty"`
	Memory     int64             `json:"memory,omitempty"` // bytes
	Fields     []Column          `json:"fields,omitempty"` // of the input
}

// Hello is the first message from the child.
type Hello struct {
	Version int `json:"version"`
}

// Description is a program of the child.
type Description struct {
	Name    string   `json:"name"`
	About   string   `json:"about,omitempty"`
	Input   string   `json:"input"`
	Columns []string `json:"columns"` // null: all
	MapOnly bool     `json:"map_only,omitempty"`
	Fields  []Column `json:"fields"`
}

// Done is the last message from the child.
type Done struct {
	Error     string           `json:"error,omitempty"` // "": the task succeeded
	Permanent bool             `json:"permanent,omitempty"`
	Counters  map[string]int64 `json:"counters,omitempty"`
}

// Writer writes messages. Safe for concurrent use, but the frames of one batch
// belong together: one goroutine writes batches.
type Writer struct {
	mu  sync.Mutex
	out *bufio.Writer
	enc frame.Encoder
	buf []byte
}

// NewWriter returns a writer to a pipe.
func NewWriter(w io.Writer) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 128<<10), enc: frame.Encoder{Uncompressed: true}}
}

// put writes a message of two parts.
func (w *Writer) put(k Kind, flush bool, parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > maxPayload {
		return fmt.Errorf("pipe: a message of %d bytes, at most %d fit", n, maxPayload)
	}
	head := [headerSize]byte{byte(k)}
	binary.LittleEndian.PutUint32(head[4:], uint32(n))
	if _, err := w.out.Write(head[:]); err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := w.out.Write(p); err != nil {
			return err
		}
	}
	if flush {
		return w.out.Flush()
	}
	return nil
}

// Send writes a message at once; v is coded as JSON, nil is no payload.
func (w *Writer) Send(k Kind, v any) error {
	if v == nil {
		return w.put(k, true)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.put(k, true, text)
}

// Batch writes a batch, for a partition unless that is negative.
func (w *Writer) Batch(fields []schema.Field, partition int, b *batch.Batch) error {
	var head []byte
	if partition >= 0 {
		head = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(partition))
		w.buf = head
	}
	_, err := w.enc.Encode(fields, []*batch.Batch{b}, func(f []byte) error { return w.put(KindFrame, false, head, f) })
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Flush()
}

// Reader reads messages. Not safe for concurrent use.
type Reader struct {
	in  *bufio.Reader
	buf []byte
}

// NewReader returns a reader of a pipe.
func NewReader(r io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(r, 128<<10)} }

// Next returns the next message; its payload is valid until the next call. A
// pipe that ends between two messages gives io.EOF.
func (r *Reader) Next() (Kind, []byte, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrEnded
		}
		return 0, nil, err
	}
	k, n := Kind(head[0]), binary.LittleEndian.Uint32(head[4:])
	switch k {
	case KindHello, KindFrame, KindEnd, KindPrograms, KindAlive, KindDone:
	default:
		return 0, nil, garbagef("a message begins with %q", head[:])
	}
	if head[1] != 0 || head[2] != 0 || head[3] != 0 || n > maxPayload {
		return 0, nil, garbagef("a message begins with %q", head[:])
	}
	if cap(r.buf) < int(n) {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = ErrEnded
		}
		return 0, nil, err
	}
	return k, r.buf, nil
}

// Expect reads a message of a kind into v.
func (r *Reader) Expect(k Kind, v any) error {
	got, payload, err := r.Next()
	if err == io.EOF {
		err = ErrEnded
	}
	if err != nil {
		return err
	}
	if got != k {
		return garbagef("a message %q where %q should be", got, k)
	}
	return Decode(payload, v)
}

// Decode decodes a JSON payload.
func Decode(payload []byte, v any) error {
	if err := json.Unmarshal(payload, v); err != nil {
		return garbagef("a message: %v", err)
	}
	return nil
}

// Batches reads batches from a pipe until another message comes. It implements
// batch.Reader.
type Batches struct {
	*frame.Reader
	in          *Reader
	partitioned bool
	partition   int
	other       func(Kind, []byte) (end bool, err error)
}

// NewBatches returns a reader of batches with these fields, each for a partition
// if partitioned. other handles messages that are no frames; end says that no
// more batches come.
func NewBatches(in *Reader, fields []schema.Field, partitioned bool, other func(k Kind, payload []byte) (end bool, err error)) *Batches {
	b := &Batches{in: in, partitioned: partitioned, other: other}
	b.Reader = frame.NewReader(fields, b)
	return b
}

// Partition returns that of the last batch.
func (b *Batches) Partition() int { return b.partition }

// Frame implements frame.Source.
func (b *Batches) Frame(context.Context) ([]byte, error) {
	for {
		k, payload, err := b.in.Next()
		if err == io.EOF {
			err = ErrEnded
		}
		if err != nil {
			return nil, err
		}
		if k == KindFrame {
			if !b.partitioned {
				return payload, nil
			}
			if len(payload) < 4 {
				return nil, garbagef("a frame of %d bytes", len(payload))
			}
			b.partition = int(binary.LittleEndian.Uint32(payload))
			return payload[4:], nil
		}
		end, err := b.other(k, payload)
		if err != nil {
			return nil, err
		}
		if end {
			return nil, io.EOF
		}
	}
}

// Next implements batch.Reader.
func (b *Batches) Next(ctx context.Context) (*batch.Batch, error) {
	out, err := b.Reader.Next(ctx)
	if err != nil {
		return nil, err
	}
	for i, c := range out.Columns {
		if err := checkArray(c.Data()); err != nil {
			return nil, garbagef("column %d: %v", i+1, err)
		}
	}
	return out, nil
}

// checkArray makes sure that buffers are as long as they must be and that offsets
// lie within their data: Arrow's readers believe them.
func checkArray(d arrow.ArrayData) error {
	bits := func(i, width int) error {
		if b := d.Buffers()[i]; (b == nil && i > 0 && d.Len() > 0) || (b != nil && b.Len()*8 < (d.Offset()+d.Len())*width) {
			return fmt.Errorf("a buffer is too short for %d values", d.Len())
		}
		return nil
	}
	if err := bits(0, 1); err != nil {
		return err
	}
	if t, ok := d.DataType().(arrow.FixedWidthDataType); ok && len(d.Buffers()) > 1 {
		if err := bits(1, t.BitWidth()); err != nil {
			return err
		}
	}
	switch d.DataType().ID() {
	case arrow.STRING, arrow.BINARY, arrow.LIST, arrow.MAP:
	case arrow.DICTIONARY:
		return checkArray(d.Dictionary())
	default:
		for _, c := range d.Children() {
			if err := checkArray(c); err != nil {
				return err
			}
		}
		return nil
	}
	if d.Len() == 0 {
		return nil
	}
	var limit int
	if kids := d.Children(); len(kids) == 1 {
		limit = kids[0].Len()
		if err := checkArray(kids[0]); err != nil {
			return err
		}
	} else if b := d.Buffers()[2]; b != nil {
		limit = b.Len()
	}
	var offsets []int32
	if b := d.Buffers()[1]; b != nil {
		offsets = arrow.Int32Traits.CastFromBytes(b.Bytes())
	}
	if len(offsets) < d.Offset()+d.Len()+1 {
		return fmt.Errorf("%d offsets for %d values", len(offsets), d.Len())
	}
	offsets = offsets[d.Offset() : d.Offset()+d.Len()+1]
	if offsets[0] < 0 || int(offsets[d.Len()]) > limit || !slices.IsSorted(offsets) {
		return errors.New("offsets outside of the data")
	}
	return nil
}
