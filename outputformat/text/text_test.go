package text

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/outputformat"
	"github.com/skepdb/skep/schema"
)

var fields = []schema.Field{{Name: "a", Type: schema.StringType}, {Name: "n", Type: schema.BigIntType}}

func rowsOf(texts ...string) *batch.Batch {
	var a, n []schema.Datum
	for i, t := range texts {
		d := schema.Datum{Type: schema.StringType, S: t}
		if t == "NULL" {
			d = schema.NullOf(schema.StringType)
		}
		a, n = append(a, d), append(n, schema.Datum{Type: schema.BigIntType, I: int64(i)})
	}
	return &batch.Batch{Len: len(texts), Columns: []arrow.Array{schema.ArrayOf(schema.StringType, a), schema.ArrayOf(schema.BigIntType, n)}}
}

func TestEncoder(t *testing.T) {
	for _, c := range []struct {
		style      Style
		text, want string
	}{
		{TSV, "plain", "plain\t0\n"},
		{TSV, "NULL", "\\N\t0\n"},
		{TSV, "", "\t0\n"},
		{TSV, "a\tb\nc\r\\N", "a\\tb\\nc\\r\\\\N\t0\n"},
		{TSV, `say "x", y`, "say \"x\", y\t0\n"},
		{CSV, "plain", "plain,0\n"},
		{CSV, "NULL", ",0\n"},
		{CSV, "", "\"\",0\n"},
		{CSV, `say "x", y`, "\"say \"\"x\"\", y\",0\n"},
		{CSV, "a\nb", "\"a\nb\",0\n"},
		{CSV, "a\tb", "a\tb,0\n"},
	} {
		e, err := NewEncoder(c.style, fields)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Append(nil, rowsOf(c.text))
		if err != nil || string(got) != c.want {
			t.Errorf("%s of %q: %q, %v, want %q", c.style, c.text, got, err, c.want)
		}
	}
	e, err := NewEncoder(CSV, []schema.Field{{Name: "x,y"}, {Name: "z"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(e.AppendHeader(nil)); got != "\"x,y\",z\n" {
		t.Errorf("header %q", got)
	}
}

func write(t *testing.T, s outputformat.Spec, task int, attempt string, texts ...string) outputformat.Manifest {
	t.Helper()
	w, err := New().Open(t.Context(), s, fields, task, attempt)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), rowsOf(texts...)); err != nil {
		t.Fatal(err)
	}
	m, err := w.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// files returns what a directory has, name=content, hidden ones too.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if d.Name() == SuccessFile {
			text = nil
		}
		out = append(out, name+"="+string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func begin(t *testing.T, s Spec) outputformat.Spec {
	t.Helper()
	b, err := New().Begin(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Only winners appear, all at once; a publish may be made again at any step.
func TestPublish(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "out")
	s := begin(t, Spec{Dir: dir, Style: TSV})
	won := []outputformat.Manifest{write(t, s, 2, "j.0.2.1", "late"), write(t, s, 0, "j.0.0.0", "x", "y"), write(t, s, 1, "j.0.1.0")}
	write(t, s, 2, "j.0.2.0", "loser")
	aborted, err := New().Open(t.Context(), s, fields, 3, "j.0.3.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := aborted.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("something shows before the publish: %v", err)
	}
	// A publish that was interrupted after a rename.
	spec := s.(Spec)
	if err := errors.Join(os.MkdirAll(spec.out(), 0o755), os.Rename(filepath.Join(spec.attempts(), "j.0.0.0"), filepath.Join(spec.out(), "part-00000.tsv"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sum, err := New().Publish(t.Context(), s, won)
		if err != nil || sum.Rows != 3 {
			t.Fatalf("%+v, %v", sum, err)
		}
		want := []string{"out/_SUCCESS=", "out/part-00000.tsv=x\t0\ny\t1\n", "out/part-00002.tsv=late\t0\n"}
		if got := files(t, root); !slices.Equal(got, want) {
			t.Fatalf("files %q, want %q", got, want)
		}
	}
	if err := New().Abandon(t.Context(), s); err == nil {
		t.Error("a published output was abandoned")
	}
}

func TestOverwrite(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "out")
	for i, text := range []string{"first", "second"} {
		s := begin(t, Spec{Dir: dir, Style: CSV, Overwrite: i > 0})
		if _, err := New().Publish(t.Context(), s, []outputformat.Manifest{write(t, s, i, "a", text)}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := files(t, root), []string{"out/_SUCCESS=", "out/part-00001.csv=second,0\n"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	// Abandoned, the old output stays.
	s := begin(t, Spec{Dir: dir, Style: CSV, Overwrite: true})
	write(t, s, 0, "a", "third")
	if err := New().Abandon(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := files(t, root); len(got) != 2 || !strings.Contains(got[1], "second") {
		t.Errorf("after an abandoned output: %q", got)
	}
}

func TestRefused(t *testing.T) {
	root := t.TempDir()
	full, file := filepath.Join(root, "full"), filepath.Join(root, "file")
	if err := errors.Join(os.MkdirAll(full, 0o755), os.WriteFile(filepath.Join(full, "x"), nil, 0o644), os.WriteFile(file, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{{Dir: full, Style: TSV}, {Dir: file, Style: TSV}, {Dir: "relative", Style: TSV}, {Dir: "/", Style: TSV}, {Dir: filepath.Join(root, "x"), Style: "xml"}} {
		if _, err := New().Begin(t.Context(), s); fault.ClassOf(err) != fault.User {
			t.Errorf("%+v: %v", s, err)
		}
	}
	// One that came while the job ran is not replaced.
	dir := filepath.Join(root, "out")
	s := begin(t, Spec{Dir: dir, Style: TSV})
	m := write(t, s, 0, "a", "x")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := New().Publish(t.Context(), s, []outputformat.Manifest{m}); fault.ClassOf(err) != fault.User {
		t.Errorf("publish over another's directory: %v", err)
	}
}

func TestExchangeByHand(t *testing.T) {
	root := t.TempDir()
	a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
	if err := errors.Join(os.Mkdir(a, 0o755), os.Mkdir(b, 0o755), os.WriteFile(filepath.Join(a, "x"), []byte("1"), 0o644), os.WriteFile(filepath.Join(b, "x"), []byte("2"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, swap := range []func(a, b string) error{exchange, func(a, b string) error { return exchangeByHand(a, b, os.Rename) }} {
		before := files(t, root)
		if err := swap(a, b); err != nil {
			t.Fatal(err)
		}
		if got := files(t, root); len(got) != 2 || got[0] != "a/x="+before[1][4:] || got[1] != "b/x="+before[0][4:] {
			t.Errorf("swapped %q into %q", before, got)
		}
	}
}
