package segment

import (
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/skepdb/skep/internal/fault"
)

// The sidecar's fixed part (docs/format/segment.md).
const (
	sidecarMagic   = "SKEPCRC\x01"
	sidecarHeader  = 8 + 4 + 4 + 8 // magic, block size, blocks, file length
	blockSize      = 64 << 10
	maxSidecarFile = 1 << 46 // bytes of a file that a sidecar of 4 GiB could cover
)

// castagnoli is CRC32C, which processors compute at some 20 GB/s.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// summer computes the CRC32C of every block of what is written through it.
type summer struct {
	w      io.Writer
	table  *crc32.Table
	hash   hash.Hash32
	filled int // bytes in the block that hash covers
	length int64
	sums   []uint32
}

func newSummer(w io.Writer) *summer {
	t := castagnoli()
	return &summer{w: w, table: t, hash: crc32.New(t)}
}

// Write passes p on and sums what was written of it.
func (s *summer) Write(p []byte) (int, error) {
	total := 0
	for total < len(p) {
		part := p[total:min(len(p), total+blockSize-s.filled)]
		// Sum first: a vfs.File may change the slice that it writes.
		s.hash.Write(part)
		n, err := s.w.Write(part)
		total += n
		s.length += int64(n)
		if err != nil {
			return total, err
		}
		if n < len(part) {
			return total, io.ErrShortWrite
		}
		if s.filled += n; s.filled == blockSize {
			s.cut()
		}
	}
	return total, nil
}

func (s *summer) cut() {
	s.sums = append(s.sums, s.hash.Sum32())
	s.hash.Reset()
	s.filled = 0
}

// sidecar returns the sidecar of everything written.
func (s *summer) sidecar() []byte {
	if s.filled > 0 {
		s.cut()
	}
	out := make([]byte, 0, sidecarHeader+4*len(s.sums)+4)
	out = append(out, sidecarMagic...)
	out = binary.LittleEndian.AppendUint32(out, blockSize)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(s.sums)))
	out = binary.LittleEndian.AppendUint64(out, uint64(s.length))
	for _, sum := range s.sums {
		out = binary.LittleEndian.AppendUint32(out, sum)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, s.table))
}

// checkedFile reads a file and checks every block that it touches.
type checkedFile struct {
	file   vfs.File
	path   string
	length int64
	sums   []uint32
	table  *crc32.Table
}

// openChecked opens a file with its sidecar. length is the file's, sum that of
// the sidecar (its last four bytes), both from the manifest.
func openChecked(fs vfs.FS, path string, length int64, sum uint32) (*checkedFile, error) {
	side := path + SidecarSuffix
	data, err := readAll(fs, side)
	if err != nil {
		return nil, fault.Bugf("open segment: read sidecar %s: %w", side, err)
	}
	c := &checkedFile{path: path, table: castagnoli()}
	if err := c.parse(side, data); err != nil {
		return nil, err
	}
	if got := binary.LittleEndian.Uint32(data[len(data)-4:]); got != sum {
		return nil, fault.Bugf("open segment: sidecar %s has checksum %08x but the manifest knows it with %08x: it belongs to another file", side, got, sum)
	}
	if c.length != length {
		return nil, fault.Bugf("open segment: sidecar %s is of a file of %d bytes, but the manifest knows one of %d", side, c.length, length)
	}
	c.file, err = fs.Open(path)
	if err != nil {
		return nil, fault.Bugf("open segment: %w", err)
	}
	info, err := c.file.Stat()
	if err != nil {
		c.file.Close()
		return nil, fault.Bugf("open segment: %s: %w", path, err)
	}
	if info.Size() != length {
		c.file.Close()
		return nil, fault.Bugf("open segment: %s has %d bytes instead of %d: byte %d is the first that differs", path, info.Size(), length, min(info.Size(), length))
	}
	return c, nil
}

func readAll(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return data, err
}

// parse checks a sidecar and takes its sums.
func (c *checkedFile) parse(side string, data []byte) error {
	if len(data) < sidecarHeader+4 {
		return fault.Bugf("open segment: sidecar %s is damaged: %d bytes, cut off at byte %d", side, len(data), len(data))
	}
	body, want := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, c.table); got != want {
		return fault.Bugf("open segment: sidecar %s is damaged: bytes 0 to %d have CRC32C %08x instead of %08x", side, len(body)-1, got, want)
	}
	if string(body[:len(sidecarMagic)]) != sidecarMagic {
		return fault.Bugf("open segment: sidecar %s starts with %q instead of %q: a file of another kind or version", side, body[:8], sidecarMagic)
	}
	size := binary.LittleEndian.Uint32(body[8:])
	blocks := binary.LittleEndian.Uint32(body[12:])
	length := binary.LittleEndian.Uint64(body[16:])
	if size != blockSize || length > maxSidecarFile || uint64(blocks) != (length+blockSize-1)/blockSize || len(body) != sidecarHeader+4*int(blocks) {
		return fault.Bugf("open segment: sidecar %s contradicts itself: %d blocks of %d bytes for %d bytes", side, blocks, size, length)
	}
	c.length = int64(length)
	c.sums = make([]uint32, blocks)
	for i := range c.sums {
		c.sums[i] = binary.LittleEndian.Uint32(body[sidecarHeader+4*i:])
	}
	return nil
}

// blocks returns the bytes of the blocks that hold [off, end), checked, with
// the file offset where they start. buf is used if it is large enough.
func (c *checkedFile) blocks(off, end int64, buf []byte) (start int64, data []byte, err error) {
	if off < 0 || end < off || end > c.length {
		return 0, nil, fault.Bugf("read segment %s: bytes %d to %d are outside the file's %d", c.path, off, end, c.length)
	}
	start = off / blockSize * blockSize
	stop := min((end+blockSize-1)/blockSize*blockSize, c.length)
	n := int(stop - start)
	// The slack lets decoders read a few bytes past the end.
	if cap(buf) < n+decodeSlack {
		buf = make([]byte, n+decodeSlack)
	}
	data = buf[:n]
	if got, err := c.file.ReadAt(data, start); got < n {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, fault.Bugf("read segment %s: at byte %d: %w", c.path, start+int64(got), err)
	}
	for at := 0; at < n; at += blockSize {
		block := (start + int64(at)) / blockSize
		part := data[at:min(at+blockSize, n)]
		if got := crc32.Checksum(part, c.table); got != c.sums[block] {
			return 0, nil, fault.Bugf("read segment %s: bytes %d to %d are damaged: CRC32C %08x instead of %08x",
				c.path, start+int64(at), start+int64(at+len(part))-1, got, c.sums[block])
		}
	}
	return start, data, nil
}

// bytes returns bytes [off, end) of the file, checked.
func (c *checkedFile) bytes(off, end int64) ([]byte, error) {
	start, data, err := c.blocks(off, end, nil)
	if err != nil {
		return nil, err
	}
	return data[off-start : end-start], nil
}

// sidecarSum returns the checksum at a sidecar's end.
func sidecarSum(side []byte) uint32 { return binary.LittleEndian.Uint32(side[len(side)-4:]) }
