package export

import (
	"archive/zip"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat/text"
)

// archive writes the zip of a run to a file, a batch at a time: what it holds in
// memory doesn't depend on how many rows there are.
func archive(ctx context.Context, f *os.File, d *Definition, run string, r Result, progress func(rows int64)) (*Manifest, error) {
	m := &Manifest{Export: d.Name, Run: run, Query: d.Query, Snapshot: r.Snapshot(), SnapshotTime: time.UnixMilli(int64(r.Snapshot() >> 20)).UTC(),
		Format: string(d.Format), Header: !d.NoHeader, Columns: []Column{}, DataFile: d.Name + "." + string(d.Format)}
	for _, c := range r.Fields() {
		m.Columns = append(m.Columns, Column{c.Name, c.Type.String()})
	}
	whole := &counter{h: sha256.New()}
	out := bufio.NewWriterSize(io.MultiWriter(f, whole), 256<<10)
	z := zip.NewWriter(out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	w, err := z.CreateHeader(&zip.FileHeader{Name: m.DataFile, Method: zip.Deflate, Modified: m.SnapshotTime})
	if err != nil {
		return nil, err
	}
	data := &counter{h: sha256.New()}
	if err := rows(ctx, io.MultiWriter(w, data), d, r, m, progress); err != nil {
		return nil, err
	}
	m.DataBytes, m.DataSHA256 = data.n, data.sum()
	description, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if w, err = z.CreateHeader(&zip.FileHeader{Name: "manifest.json", Method: zip.Deflate, Modified: m.SnapshotTime}); err == nil {
		_, err = w.Write(append(description, '\n'))
	}
	if err = errors.Join(err, z.Close(), out.Flush(), f.Sync()); err != nil {
		return nil, fault.Retryablef("write %s: %w", f.Name(), err)
	}
	m.ZipBytes, m.ZipSHA256 = whole.n, whole.sum()
	return m, nil
}

// rows writes the rows of a result as text.
func rows(ctx context.Context, w io.Writer, d *Definition, r Result, m *Manifest, progress func(int64)) error {
	e, err := text.NewEncoder(d.Format, r.Fields())
	if err != nil {
		return err
	}
	var buf []byte
	if m.Header {
		buf = e.AppendHeader(buf)
	}
	for {
		if _, err := w.Write(buf); err != nil {
			return fault.Retryablef("write the rows: %w", err)
		}
		b, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the rows: %w", err)
		}
		if buf, err = e.Append(buf[:0], b); err != nil {
			return err
		}
		m.Rows += int64(b.Rows())
		progress(m.Rows)
	}
}

// counter counts and hashes what is written to it.
type counter struct {
	h hash.Hash
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.h.Write(p)
}

func (c *counter) sum() string { return hex.EncodeToString(c.h.Sum(nil)) }
