package mapreduce

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"unsafe"

	"github.com/skepdb/skep/internal/fault"
)

// A spilled run is a file of blocks, each a header of five 32-bit little-endian
// numbers (partition, records, bytes of keys, bytes of values, CRC-32C of what
// follows) and then the ends of the keys, the keys, the ends of the values, the values. It
// lives as long as its attempt; the checksum finds disks that lie.

const spillHeader = 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spillWriter writes a run.
type spillWriter struct {
	f   *os.File
	w   *bufio.Writer
	buf []byte
}

func newSpill(dir string) (*spillWriter, error) {
	f, err := os.CreateTemp(dir, "run-*")
	if err != nil {
		return nil, spillError(err)
	}
	return &spillWriter{f: f, w: bufio.NewWriterSize(f, 256<<10)}, nil
}

// spillError: another worker may have room.
func spillError(err error) error { return fault.Retryablef("spill to disk: %w", err) }

func (s *spillWriter) write(b *block) error {
	out := append(s.buf[:0], make([]byte, spillHeader)...)
	le := binary.LittleEndian
	for _, t := range []*texts{&b.keys, &b.vals} {
		base := t.off[0]
		for _, o := range t.off[1 : b.n+1] {
			out = le.AppendUint32(out, uint32(o-base))
		}
		out = append(out, t.data[base:t.off[b.n]]...)
	}
	le.PutUint32(out, uint32(b.part))
	le.PutUint32(out[4:], uint32(b.n))
	le.PutUint32(out[8:], uint32(b.keys.off[b.n]-b.keys.off[0]))
	le.PutUint32(out[12:], uint32(b.vals.off[b.n]-b.vals.off[0]))
	le.PutUint32(out[16:], crc32.Checksum(out[spillHeader:], castagnoli))
	s.buf = out
	if _, err := s.w.Write(out); err != nil {
		return spillError(err)
	}
	return nil
}

// finish returns the run, to be read once.
func (s *spillWriter) finish() (*spillReader, error) {
	if err := s.w.Flush(); err != nil {
		return nil, spillError(errors.Join(err, s.drop()))
	}
	if _, err := s.f.Seek(0, io.SeekStart); err != nil {
		return nil, spillError(errors.Join(err, s.drop()))
	}
	return &spillReader{f: s.f}, nil
}

func (s *spillWriter) drop() error { return errors.Join(s.f.Close(), os.Remove(s.f.Name())) }

// spillReader reads a run; it implements source. Its buffer is made when it is
// first read, so that runs that wait cost nothing.
type spillReader struct {
	f *os.File
	r *bufio.Reader
}

func (s *spillReader) next() (*block, error) {
	if s.r == nil {
		s.r = bufio.NewReaderSize(s.f, 64<<10)
	}
	var head [spillHeader]byte
	if _, err := io.ReadFull(s.r, head[:]); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, spillError(err)
	}
	le := binary.LittleEndian
	n, keys, vals := int(le.Uint32(head[4:])), int(le.Uint32(head[8:])), int(le.Uint32(head[12:]))
	if n > blockRows || keys < 0 || vals < 0 {
		return nil, spillError(fmt.Errorf("%s is damaged", s.f.Name()))
	}
	body := make([]byte, 8*n+keys+vals)
	if _, err := io.ReadFull(s.r, body); err != nil {
		return nil, spillError(fmt.Errorf("%s: %w", s.f.Name(), err))
	}
	if crc32.Checksum(body, castagnoli) != le.Uint32(head[16:]) {
		return nil, spillError(fmt.Errorf("%s is damaged: a checksum differs", s.f.Name()))
	}
	b := &block{part: int(le.Uint32(head[:])), n: n}
	b.keys = textsOf(body[:4*n], body[4*n:4*n+keys])
	body = body[4*n+keys:]
	b.vals = textsOf(body[:4*n], body[4*n:])
	return b, nil
}

func textsOf(ends, data []byte) texts {
	t := texts{off: make([]int32, len(ends)/4+1), data: data}
	for i := range t.off[1:] {
		t.off[i+1] = int32(binary.LittleEndian.Uint32(ends[4*i:]))
	}
	return t
}

func (s *spillReader) close() error { return errors.Join(s.f.Close(), os.Remove(s.f.Name())) }

// spills are the runs that an attempt has on disk.
type spills struct {
	parent  string // of dir; "": the system's
	dir     string // "": made when first needed
	runs    []*spillReader
	records int64
}

// spill writes a run: fill hands over its blocks.
func (s *spills) spill(fill func(to func(*block) error) error) error {
	if s.dir == "" {
		if s.parent != "" {
			if err := os.MkdirAll(s.parent, 0o755); err != nil {
				return spillError(err)
			}
		}
		dir, err := os.MkdirTemp(s.parent, "skep-spill-")
		if err != nil {
			return spillError(err)
		}
		s.dir = dir
	}
	w, err := newSpill(s.dir)
	if err != nil {
		return err
	}
	err = fill(func(b *block) error {
		s.records += int64(b.n)
		return w.write(b)
	})
	if err != nil {
		return errors.Join(err, w.drop())
	}
	r, err := w.finish()
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	return nil
}

// mergeFactor is how many runs are merged at a time.
const mergeFactor = 64

// squeeze merges runs until there are few enough to be merged at once.
func (s *spills) squeeze(o order, fold folder) error {
	for len(s.runs) > mergeFactor {
		first := s.runs[:mergeFactor]
		rest := s.runs[mergeFactor:]
		s.runs = nil
		err := s.spill(func(to func(*block) error) error { return mergeRuns(o, sources(first), fold, to) })
		for _, r := range first {
			err = errors.Join(err, r.close())
		}
		// The new run keeps the place of those that it is made of.
		s.runs = append(s.runs, rest...)
		if err != nil {
			return err
		}
	}
	return nil
}

func sources(runs []*spillReader) []source {
	out := make([]source, len(runs))
	for i, r := range runs {
		out[i] = r
	}
	return out
}

func (s *spills) close() error {
	var err error
	for _, r := range s.runs {
		err = errors.Join(err, r.close())
	}
	s.runs = nil
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
		s.dir = ""
	}
	return err
}

// sizeOf is the size of a value itself, without what it points to.
func sizeOf[T any]() int64 {
	var v T
	return int64(unsafe.Sizeof(v))
}
