package text

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
)

// file is an input file as it was when the splits were made.
type file struct {
	Path    string
	Size    int64 // on disk
	ModTime time.Time
	Number  int // its position among the files
}

// decompressors are the endings of compressed files' names, as Hadoop's codecs
// have them, and their readers.
func decompressor(path string) func(io.Reader) (io.Reader, error) {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".gz", ".gzip":
		return func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }
	case ".bz2":
		return func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }
	case ".deflate":
		return func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }
	case ".zst":
		return func(r io.Reader) (io.Reader, error) {
			// One goroutine: the reader is dropped without being closed.
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
		}
	case ".lz4":
		return func(r io.Reader) (io.Reader, error) { return lz4.NewReader(r), nil }
	}
	return nil
}

func (f file) compressed() bool { return decompressor(f.Path) != nil }

// findFiles expands paths, in their order; the files of a folder or pattern by
// name.
func findFiles(paths []string) ([]file, error) {
	var out []file
	add := func(path string, info fs.FileInfo) {
		out = append(out, file{Path: path, Size: info.Size(), ModTime: info.ModTime(), Number: len(out)})
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
			found, err := filepath.Glob(path)
			if err != nil {
				return nil, fault.Userf("the pattern %s: %w", path, err)
			}
			if len(found) == 0 {
				return nil, fault.Userf("no file matches %s", path)
			}
			slices.Sort(found)
			for _, p := range found {
				info, err := os.Stat(p)
				if err != nil {
					return nil, openError(p, err)
				}
				if info.Mode().IsRegular() {
					add(p, info)
				}
			}
			continue
		}
		switch {
		case err != nil:
			return nil, openError(path, err)
		case info.IsDir():
			entries, err := os.ReadDir(path) // sorted
			if err != nil {
				return nil, openError(path, err)
			}
			before := len(out)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
					continue
				}
				p := filepath.Join(path, e.Name())
				info, err := os.Stat(p)
				if err != nil {
					return nil, openError(p, err)
				}
				if info.IsDir() {
					return nil, fault.Userf("%s holds the folder %s: name the folders whose files are meant, or use a pattern", path, e.Name())
				}
				if info.Mode().IsRegular() {
					add(p, info)
				}
			}
			if len(out) == before {
				return nil, fault.Userf("the folder %s has no files", path)
			}
		case !info.Mode().IsRegular():
			return nil, fault.Userf("%s is not a regular file: it can't be read in parts", path)
		default:
			add(path, info)
		}
	}
	return out, nil
}

// openError makes a user error of a file that can't be read; it suggests a name
// near it.
func openError(path string, err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	e := &fault.Error{Class: fault.User, SQLState: fault.StateBadData, Message: "can't read " + path, Cause: err}
	if errors.Is(err, fs.ErrNotExist) {
		e.Message, e.Cause = "there is no file "+path, nil
		dir, base := filepath.Split(path)
		if entries, err := os.ReadDir(filepath.Clean(dir + ".")); err == nil {
			names := make([]string, len(entries))
			for i, d := range entries {
				names[i] = d.Name()
			}
			e.Hint = nearest.Hint(base, names)
		} else if dir != "" {
			e.Hint = "nor is there a folder " + filepath.Clean(dir)
		}
	}
	return e
}

// open returns the file's bytes (decompressed) from an offset on.
func (f file) open(from int64) (io.ReadCloser, error) {
	h, err := os.Open(f.Path)
	if err != nil {
		return nil, openError(f.Path, err)
	}
	r, err := f.position(h, from)
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return &opened{Reader: r, file: h}, nil
}

func (f file) position(h *os.File, from int64) (io.Reader, error) {
	info, err := h.Stat()
	if err != nil {
		return nil, openError(f.Path, err)
	}
	if info.Size() != f.Size || !info.ModTime().Equal(f.ModTime) {
		return nil, fault.Userf("%s changed while it was read: run the statement again", f.Path)
	}
	if !f.compressed() {
		if _, err := h.Seek(from, io.SeekStart); err != nil {
			return nil, openError(f.Path, err)
		}
		return h, nil
	}
	if f.Size == 0 {
		return bytes.NewReader(nil), nil
	}
	z, err := decompressor(f.Path)(h)
	if err != nil {
		return nil, fault.Userf("%s is not what its name says, a %s file: %w", f.Path, strings.TrimPrefix(filepath.Ext(f.Path), "."), err)
	}
	if _, err := io.CopyN(io.Discard, z, from); err != nil {
		return nil, f.readError(err)
	}
	return z, nil
}

func (f file) readError(err error) error {
	if f.compressed() {
		return fault.Userf("%s is damaged: %w", f.Path, err)
	}
	return openError(f.Path, err)
}

type opened struct {
	io.Reader
	file *os.File
}

func (o *opened) Close() error { return o.file.Close() }

// lineAt returns the 1-based number of the line that holds the byte at offset.
// It reads the file up to there: only errors need it.
func (f file) lineAt(offset int64) (int64, error) {
	r, err := f.open(0)
	if err != nil {
		return 0, err
	}
	line := int64(1)
	buf := make([]byte, 256<<10)
	for left := offset; left > 0; {
		n, err := r.Read(buf[:min(int64(len(buf)), left)])
		line += int64(bytes.Count(buf[:n], []byte{'\n'}))
		left -= int64(n)
		if err != nil {
			return line, errors.Join(fmt.Errorf("count lines of %s: %w", f.Path, err), r.Close())
		}
	}
	return line, r.Close()
}
