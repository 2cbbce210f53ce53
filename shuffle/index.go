package shuffle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/skepdb/skep/batch/frame"
)

// The files of a map attempt's output, docs/format/shuffle.md.
const (
	formatVersion = 1
	dataMagic     = "SKEPSHDA"
	indexMagic    = "SKEPSHIX"
	dataHeader    = 16
	indexHeader   = 32
	indexEntry    = 32
	maxPartitions = 1 << 20
)

// extent is where a partition is in a data file.
type extent struct {
	offset, length int64
	rows           int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendDataHeader(b []byte) []byte {
	b = append(b, dataMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	return binary.LittleEndian.AppendUint32(b, 0)
}

// appendIndex appends the index of a data file.
func appendIndex(b []byte, parts []extent, dataLength int64) []byte {
	at := len(b)
	b = append(b, indexMagic...)
	b = binary.LittleEndian.AppendUint32(b, formatVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(parts)))
	b = binary.LittleEndian.AppendUint64(b, uint64(dataLength))
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[at:], castagnoli))
	for p, e := range parts {
		at := len(b)
		b = binary.LittleEndian.AppendUint64(b, uint64(e.offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.length))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.rows))
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint32(b, entrySum(b[at:], p))
	}
	return b
}

// entrySum is the checksum of an entry's first 28 bytes and its partition.
func entrySum(entry []byte, partition int) uint32 {
	var p [4]byte
	binary.LittleEndian.PutUint32(p[:], uint32(partition))
	return crc32.Update(crc32.Checksum(entry[:28], castagnoli), castagnoli, p[:])
}

// readIndex returns where a partition is. Bytes that aren't a good index give a
// frame.ErrCorrupt.
func readIndex(r io.ReaderAt, partition int) (extent, error) {
	corrupt := func(format string, args ...any) (extent, error) {
		return extent{}, fmt.Errorf("%w: index: %s", frame.ErrCorrupt, fmt.Sprintf(format, args...))
	}
	var b [indexHeader]byte
	if n, err := r.ReadAt(b[:], 0); n < len(b) {
		if err == io.EOF {
			return corrupt("%d bytes are no header", n)
		}
		return extent{}, err
	}
	if string(b[:8]) != indexMagic {
		return corrupt("it begins with %q, want %q", b[:8], indexMagic)
	}
	if sum := crc32.Checksum(b[:28], castagnoli); sum != binary.LittleEndian.Uint32(b[28:]) {
		return corrupt("the header's checksum is %08x, want %08x", sum, binary.LittleEndian.Uint32(b[28:]))
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != formatVersion {
		return corrupt("format version %d, want %d", v, formatVersion)
	}
	n, length := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint64(b[16:])
	if n > maxPartitions || length > 1<<62 {
		return corrupt("%d partitions in %d bytes", n, length)
	}
	if partition < 0 || partition >= int(n) {
		return corrupt("partition %d of %d", partition, n)
	}
	if n, err := r.ReadAt(b[:indexEntry], indexHeader+int64(partition)*indexEntry); n < indexEntry {
		if err == io.EOF {
			return corrupt("the entry of partition %d is cut off", partition)
		}
		return extent{}, err
	}
	if sum := entrySum(b[:], partition); sum != binary.LittleEndian.Uint32(b[28:]) {
		return corrupt("the checksum of partition %d is %08x, want %08x", partition, sum, binary.LittleEndian.Uint32(b[28:]))
	}
	offset, size, rows := binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	if offset < dataHeader || offset > length || size > length-offset || rows > 1<<62 {
		return corrupt("partition %d has %d bytes at %d of %d, and %d rows", partition, size, offset, length, rows)
	}
	return extent{int64(offset), int64(size), int64(rows)}, nil
}

// frames reads the frames in a part of a data file. It implements frame.Source.
type frames struct {
	r        io.ReaderAt
	at, end  int64 // what was not read into buf yet
	buf      []byte
	from, to int // the unread part of buf
}

// readAhead is how much is read at once: a frame fits.
const readAhead = frame.MaxRaw + frame.HeaderSize

// fill makes n bytes available, if they are there.
func (s *frames) fill(n int) error {
	if s.to-s.from >= n {
		return nil
	}
	if missing := int64(n - (s.to - s.from)); missing > s.end-s.at {
		return fmt.Errorf("%w: a frame is cut off", frame.ErrCorrupt)
	}
	if s.buf == nil {
		s.buf = make([]byte, min(s.end-s.at, readAhead))
	}
	s.to = copy(s.buf, s.buf[s.from:s.to])
	s.from = 0
	if n > len(s.buf) {
		s.buf = append(s.buf, make([]byte, n-len(s.buf))...)
	}
	want := int(min(int64(len(s.buf)-s.to), s.end-s.at))
	got, err := s.r.ReadAt(s.buf[s.to:s.to+want], s.at)
	if got < want {
		if err == io.EOF {
			return fmt.Errorf("%w: the file ends %d bytes early", frame.ErrCorrupt, s.end-s.at-int64(got))
		}
		return err
	}
	s.to += want
	s.at += int64(want)
	return nil
}

// next returns the next frame, or io.EOF, unchecked but for its header.
func (s *frames) next() ([]byte, error) {
	if s.from == s.to && s.at == s.end {
		return nil, io.EOF
	}
	if err := s.fill(frame.HeaderSize); err != nil {
		return nil, err
	}
	n, err := frame.Size(s.buf[s.from:s.to])
	if err != nil {
		return nil, err
	}
	if err := s.fill(n); err != nil {
		return nil, err
	}
	f := s.buf[s.from : s.from+n]
	s.from += n
	return f, nil
}
