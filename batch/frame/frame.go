// Package frame writes batches as frames: checksummed, LZ4-compressed pieces
// of Arrow streams. It is the form that batches have where they cross a disk
// or a network: in shuffle files, between workers, on the way to a client.
// docs/format/shuffle.md describes every byte.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/pierrec/lz4/v4"
)

// HeaderSize is the bytes before a frame's payload.
const HeaderSize = 16

// MaxRaw is the most bytes of an Arrow stream that a frame may hold, and so
// what a reader must be ready to hold of one frame. A frame is never larger than
// MaxRaw + HeaderSize.
const MaxRaw = 256 << 10

// Flags of a frame.
const (
	flagStart = 1 << 0 // the first frame of an Arrow stream
	flagEnd   = 1 << 1 // the last one
)

// Codecs of a payload.
const (
	codecNone = 0
	codecLZ4  = 1 // one LZ4 block
)

// ErrCorrupt is an error of bytes that are no frames, or not those that were
// written.
var ErrCorrupt = errors.New("frame: corrupt")

func corruptf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// header is the first bytes of a frame, decoded.
type header struct {
	stored, raw int
	codec       byte
	flags       byte
	sum         uint32 // of the header before it and the payload
}

// parseHeader reads and checks what a header can say without its payload.
func parseHeader(b []byte) (header, error) {
	if len(b) < HeaderSize {
		return header{}, corruptf("a header of %d bytes, want %d", len(b), HeaderSize)
	}
	stored, raw := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	h := header{codec: b[8], flags: b[9], sum: binary.LittleEndian.Uint32(b[12:])}
	switch {
	case raw == 0 || raw > MaxRaw:
		return h, corruptf("%d bytes of stream, want 1 to %d", raw, MaxRaw)
	case stored == 0 || stored > raw:
		return h, corruptf("a payload of %d bytes for %d of stream", stored, raw)
	case h.codec > codecLZ4:
		return h, corruptf("codec %d, want 0 or 1", h.codec)
	case h.codec == codecNone && stored != raw:
		return h, corruptf("%d bytes stored as they are in %d", raw, stored)
	case h.flags&^(flagStart|flagEnd) != 0 || b[10] != 0 || b[11] != 0:
		return h, corruptf("unknown flags %x", b[9:12])
	}
	h.stored, h.raw = int(stored), int(raw)
	return h, nil
}

// Size returns the length of the frame that begins with b, which has at least
// HeaderSize bytes.
func Size(b []byte) (int, error) {
	h, err := parseHeader(b)
	return HeaderSize + h.stored, err
}

// Check verifies the checksum of one whole frame.
func Check(frame []byte) error {
	h, err := parseHeader(frame)
	if err != nil {
		return err
	}
	return h.check(frame)
}

func (h header) check(frame []byte) error {
	if len(frame) != HeaderSize+h.stored {
		return corruptf("%d bytes, its header says %d", len(frame), HeaderSize+h.stored)
	}
	if sum := checksum(frame); sum != h.sum {
		return corruptf("checksum %08x, want %08x", sum, h.sum)
	}
	return nil
}

// castagnoli is the table of CRC32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:12], castagnoli), castagnoli, frame[HeaderSize:])
}

// packer cuts the bytes of an Arrow stream into frames.
type packer struct {
	emit  func(frame []byte) error
	raw   []byte // not yet in a frame
	frame []byte // scratch
	lz4   lz4.Compressor
	flags byte
	plain bool // don't compress
}

// start begins a stream.
func (p *packer) start(emit func([]byte) error) {
	if p.raw == nil {
		p.raw = make([]byte, 0, MaxRaw)
		p.frame = make([]byte, HeaderSize+MaxRaw)
	}
	p.emit, p.raw, p.flags = emit, p.raw[:0], flagStart
}

// Write implements io.Writer for the Arrow stream's writer.
func (p *packer) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if len(p.raw) == MaxRaw {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
		k := min(len(b), MaxRaw-len(p.raw))
		p.raw = append(p.raw, b[:k]...)
		b = b[k:]
	}
	return n, nil
}

// end writes what is left, as the stream's last frame.
func (p *packer) end() error {
	p.flags |= flagEnd
	return p.flush()
}

func (p *packer) flush() error {
	codec := byte(codecLZ4)
	var n int
	var err error
	if !p.plain {
		n, err = p.lz4.CompressBlock(p.raw, p.frame[HeaderSize:HeaderSize+len(p.raw)])
	}
	if err != nil || n == 0 || n >= len(p.raw) { // does not shrink
		codec, n = codecNone, copy(p.frame[HeaderSize:], p.raw)
	}
	f := p.frame[:HeaderSize+n]
	binary.LittleEndian.PutUint32(f, uint32(n))
	binary.LittleEndian.PutUint32(f[4:], uint32(len(p.raw)))
	f[8], f[9], f[10], f[11] = codec, p.flags, 0, 0
	binary.LittleEndian.PutUint32(f[12:], checksum(f))
	p.raw, p.flags = p.raw[:0], 0
	return p.emit(f)
}

// unpack checks a frame and appends its piece of the stream to dst.
func unpack(dst, frame []byte) ([]byte, header, error) {
	h, err := parseHeader(frame)
	if err != nil {
		return dst, h, err
	}
	if err := h.check(frame); err != nil {
		return dst, h, err
	}
	if h.codec == codecNone {
		return append(dst, frame[HeaderSize:]...), h, nil
	}
	at := len(dst)
	dst = append(dst, make([]byte, h.raw)...)
	n, err := lz4.UncompressBlock(frame[HeaderSize:], dst[at:])
	if err != nil {
		return dst[:at], h, corruptf("lz4: %v", err)
	}
	if n != h.raw {
		return dst[:at], h, corruptf("%d bytes after decompression, want %d", n, h.raw)
	}
	return dst, h, nil
}
