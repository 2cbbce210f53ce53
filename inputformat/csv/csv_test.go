package csv

import (
	"bytes"
	"context"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/skepdb/skep/inputformat"
	"github.com/skepdb/skep/inputformat/text"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.csv")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func strings3() schema.Columns {
	return schema.Columns{{Name: "a", Type: schema.StringType}, {Name: "b", Type: schema.StringType}, {Name: "c", Type: schema.StringType}}
}

// readAll returns rows as cells; NULL is "<null>".
func readAll(t testing.TB, spec Spec, parallelism int) (rows [][]string, splits int, stats inputformat.Stats, err error) {
	t.Helper()
	ctx, f := context.Background(), New()
	for sp, err := range f.Splits(ctx, spec, inputformat.Want{Parallelism: parallelism}) {
		if err != nil {
			return rows, splits, stats, err
		}
		splits++
		r, err := f.Open(ctx, spec, sp)
		if err != nil {
			return rows, splits, stats, err
		}
		for {
			b, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return rows, splits, stats, errors.Join(err, r.Close())
			}
			for k := range b.Rows() {
				row := k
				if b.Sel != nil {
					row = int(b.Sel[k])
				}
				cells := make([]string, len(b.Columns))
				for i, c := range b.Columns {
					cells[i] = "<null>"
					if !c.IsNull(row) {
						cells[i] = string(schema.AppendText(nil, spec.Fields()[i].Type, c, row))
					}
				}
				rows = append(rows, cells)
			}
		}
		s := r.Stats()
		stats.RowsRead += s.RowsRead
		stats.BadRows += s.BadRows
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	return rows, splits, stats, nil
}

func TestQuotes(t *testing.T) {
	for _, c := range []struct {
		name, content string
		change        func(*Spec)
		want          [][]string
	}{
		{name: "RFC 4180, 2.1 to 2.7", content: "aaa,bbb,ccc\r\n\"aaa\",\"b\r\nbb\",\"ccc\"\r\n\"aaa\",\"b\"\"bb\",ccc", want: [][]string{{"aaa", "bbb", "ccc"}, {"aaa", "b\r\nbb", "ccc"}, {"aaa", `b"bb`, "ccc"}}},
		{name: "delimiter in quotes", content: "\"a,b\",\",\",\"\"\n", want: [][]string{{"a,b", ",", ""}}},
		{name: "quoted empty isn't NULL", content: "\"\",,\"\\N\"\n", change: func(s *Spec) { s.EmptyIsNull = true }, want: [][]string{{"", "<null>", `\N`}}},
		{name: "NULL text", content: "\\N,x,\\N\n", want: [][]string{{"<null>", "x", "<null>"}}},
		{name: "a quote inside is data", content: "5\" pipe,a\"b\"c,d\n", want: [][]string{{`5" pipe`, `a"b"c`, "d"}}},
		{name: "header with a line break", content: "a,\"b\nb\",c\n1,2,3\n", change: func(s *Spec) { s.SkipHeader = 1 }, want: [][]string{{"1", "2", "3"}}},
		{name: "too few fields", content: "\"x\"\n1\n", want: [][]string{{"x", "<null>", "<null>"}, {"1", "<null>", "<null>"}}},
		{name: "semicolons and single quotes", content: "'a;b';'it''s';c\n", change: func(s *Spec) { s.Delimiter, s.Quote = ";", "'" }, want: [][]string{{"a;b", "it's", "c"}}},
		{name: "escapes", content: `"a\"b","c\\","d""e"` + "\n", change: func(s *Spec) { s.Escape = `\` }, want: [][]string{{`a"b`, `c\`, `d"e`}}},
		{name: "text after the quote", content: "\"a\"b,c,d\r\n", want: [][]string{{"ab", "c", "d"}}},
		{name: "a subset", content: "\"1\n1\",2,\"3\"\n4,5,6\n", change: func(s *Spec) { s.Out = s.Columns[2:] }, want: [][]string{{"3"}, {"6"}}},
		{name: "no last newline after a quote", content: "a,b,\"c\"", want: [][]string{{"a", "b", "c"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Spec{Spec: text.Spec{Columns: strings3(), Out: strings3(), Paths: []string{write(t, c.content)}}}
			if c.change != nil {
				c.change(&s)
			}
			rows, _, _, err := readAll(t, s, 1)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(rows, c.want, slices.Equal[[]string]) {
				t.Errorf("rows\n%q, want\n%q", rows, c.want)
			}
		})
	}
}

func TestStrict(t *testing.T) {
	cols := strings3()
	cols[1].Type = schema.IntType
	for _, c := range []struct{ content, want string }{
		{"a,1,\"x\ny\"\nb,2x,c\n", `PATH, line 3, column b: "2x" is not an int (a whole number from -2147483648 to 2147483647)`},
		{"a,\"1\"2,c\n", `PATH, line 1: text after a closing quote (a quote inside a quoted field must be doubled): "a,\"1\"2,c"`},
		{"a,1,c\nd,2,\"e\n", `PATH, line 2: the quoted field that begins here has no closing quote`},
		{"a,\"1\"\n", `PATH, line 1: 2 fields, expected 3: "a,\"1\""`},
	} {
		path := write(t, c.content)
		s := Spec{Spec: text.Spec{Columns: cols, Out: cols, Paths: []string{path}, OnError: text.Abort}}
		_, _, _, err := readAll(t, s, 1)
		if err == nil || strings.ReplaceAll(err.Error(), path, "PATH") != c.want || fault.ClassOf(err) != fault.User {
			t.Errorf("%q:\n%v, want\n%s", c.content, err, c.want)
		}
	}
	// A record that can't be told apart is one that Skip leaves out.
	s := Spec{Spec: text.Spec{Columns: cols, Out: cols, Paths: []string{write(t, "a,\"1\"2,c\nd,2,e\n")}, OnError: text.Skip}}
	rows, _, stats, err := readAll(t, s, 1)
	if err != nil || len(rows) != 1 || stats.BadRows != 1 {
		t.Errorf("%v, %+v, %v", rows, stats, err)
	}
}

// TestNoSplitCutsQuotes reads a file with line breaks in quotes in parts, and
// compares with the standard library's reader.
func TestNoSplitCutsQuotes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var in bytes.Buffer
	w := stdcsv.NewWriter(&in)
	parts := []string{"a", ",", "\"", "\n", "text", "\n\n", "\"\"", "x,y", " "}
	for range 120_000 {
		row := make([]string, 3)
		for i := range row {
			for range rng.IntN(6) {
				row[i] += parts[rng.IntN(len(parts))]
			}
		}
		if err := w.Write(row); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	want, err := stdcsv.NewReader(bytes.NewReader(in.Bytes())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Spec: text.Spec{Columns: strings3(), Out: strings3(), Paths: []string{write(t, in.String())}, NullText: "never"}}
	for _, n := range []int{1, 2, 5} {
		rows, splits, _, err := readAll(t, s, n)
		if err != nil || splits < n || !slices.EqualFunc(rows, want, slices.Equal[[]string]) {
			t.Errorf("%d splits: %d rows, want %d (%v)", splits, len(rows), len(want), err)
		}
	}
	_, estRows, estBytes, err := Sample(context.Background(), s, 1000)
	if err != nil || estBytes != int64(in.Len()) || estRows < int64(len(want))*9/10 || estRows > int64(len(want))*11/10 {
		t.Errorf("sample estimates %d rows, %d bytes (%v)", estRows, estBytes, err)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,\"b\"\"\n\",c\r\n\"x\"y,z"), false)
	f.Add([]byte("\"\\\"\n"), true)
	f.Fuzz(func(t *testing.T, content []byte, escape bool) {
		s := Spec{Spec: text.Spec{Columns: strings3(), Out: strings3(), Paths: []string{write(t, string(content))}, NullText: "never"}}
		if escape {
			s.Escape = `\`
		}
		rows, _, stats, err := readAll(t, s, 1)
		if err != nil {
			if fault.ClassOf(err) != fault.User {
				t.Fatal(err)
			}
			return
		}
		if int64(len(rows)) != stats.RowsRead {
			t.Fatalf("%d rows, %+v", len(rows), stats)
		}
		// Cutting into records finds the same ones.
		tok := &quoted{o: text.Options{Delimiter: ',', HasEscape: escape, Escape: '\\'}, quote: '"'}
		rest := bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
		n := 0
		for len(rest) > 0 {
			k := tok.Record(rest, true)
			if k <= 0 {
				t.Fatalf("no record in %q", rest)
			}
			rest = rest[k:]
			n++
		}
		if n != len(rows) {
			t.Fatalf("%d rows, %d records", len(rows), n)
		}
	})
}

func BenchmarkCSV(b *testing.B) {
	for _, name := range []string{"plain", "quoted"} {
		b.Run(name, func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			var in bytes.Buffer
			const rows = 200_000
			quote := ""
			if name == "quoted" {
				quote = `"`
			}
			for i := range rows {
				fmt.Fprintf(&in, "%d,%sSpecies number, %05d%s,Country%03d,%d,%.6f,%.6f,occ:%016x,%d,Family%02d,observation\n", i, quote, rng.IntN(50_000), quote, rng.IntN(200), 1900+rng.IntN(120),
					rng.Float64()*180-90, rng.Float64()*360-180, rng.Uint64(), rng.IntN(1000), rng.IntN(48))
			}
			cols := make(schema.Columns, 10)
			for i := range cols {
				cols[i] = schema.Column{Name: fmt.Sprint("c", i), Type: schema.StringType}
			}
			s := Spec{Spec: text.Spec{Paths: []string{write(b, in.String())}, Columns: cols, Out: cols}}
			ctx := context.Background()
			b.SetBytes(int64(in.Len()))
			for b.Loop() {
				n := 0
				for sp, err := range New().Splits(ctx, s, inputformat.Want{}) {
					if err != nil {
						b.Fatal(err)
					}
					r, err := New().Open(ctx, s, sp)
					if err != nil {
						b.Fatal(err)
					}
					for {
						batch, err := r.Next(ctx)
						if errors.Is(err, io.EOF) {
							break
						}
						if err != nil {
							b.Fatal(err)
						}
						n += batch.Rows()
					}
				}
				if n != rows {
					b.Fatal(n)
				}
			}
			b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
