package shuffle

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/skepdb/skep/batch/frame"
)

// Whatever bytes an index and a data file have, reading them ends with an error or
// with an extent inside the file, and never panics.
func FuzzIndex(f *testing.F) {
	f.Add(appendIndex(nil, []extent{{16, 100, 3}, {116, 0, 0}}, 116), 1, []byte("data"))
	f.Add(appendIndex(nil, nil, 16), 0, []byte{})
	f.Fuzz(func(t *testing.T, index []byte, partition int, data []byte) {
		index = bytes.Clone(index)
		if len(index) >= indexHeader {
			binary.LittleEndian.PutUint32(index[28:], crc32.Checksum(index[:28], castagnoli))
		}
		if at := indexHeader + partition*indexEntry; partition >= 0 && partition < 1000 && at+indexEntry <= len(index) {
			binary.LittleEndian.PutUint32(index[at+28:], entrySum(index[at:], partition))
		}
		e, err := readIndex(bytes.NewReader(index), partition)
		if err != nil {
			if !errors.Is(err, frame.ErrCorrupt) {
				t.Fatalf("error %v is not one of corruption", err)
			}
			return
		}
		if e.offset < dataHeader || e.length < 0 || e.rows < 0 {
			t.Fatalf("extent %+v", e)
		}
		src := frameSource{&frames{r: bytes.NewReader(data), at: e.offset, end: e.offset + e.length}}
		for {
			b, err := src.Frame(context.Background())
			if err == io.EOF {
				return
			}
			if err != nil {
				if !errors.Is(err, frame.ErrCorrupt) {
					t.Fatalf("error %v is not one of corruption", err)
				}
				return
			}
			if len(b) <= frame.HeaderSize {
				t.Fatalf("a frame of %d bytes", len(b))
			}
		}
	})
}

// The documented bytes of an index.
func TestIndexBytes(t *testing.T) {
	b := appendIndex(nil, []extent{{16, 0x1234, 7}}, 0x1244)
	want := "SKEPSHIX" + "\x01\x00\x00\x00" + "\x01\x00\x00\x00" + "\x44\x12\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	if string(b[:28]) != want {
		t.Errorf("header %q, want %q", b[:28], want)
	}
	want = "\x10\x00\x00\x00\x00\x00\x00\x00" + "\x34\x12\x00\x00\x00\x00\x00\x00" + "\x07\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	if string(b[32:60]) != want {
		t.Errorf("entry %q, want %q", b[32:60], want)
	}
	if len(b) != 64 {
		t.Errorf("%d bytes", len(b))
	}
	if got := appendDataHeader(nil); string(got) != "SKEPSHDA\x01\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("data header %q", got)
	}
}
