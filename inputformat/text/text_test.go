package text

import (
	"bytes"
	"compress/gzip"
	"context"
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
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// columns makes columns of "name:type, ...".
func columns(t testing.TB, text string) schema.Columns {
	t.Helper()
	var out schema.Columns
	for _, part := range strings.Split(text, ", ") {
		name, typ, _ := strings.Cut(part, ":")
		typ, notNull := strings.CutSuffix(typ, " not null")
		parsed, err := schema.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, schema.Column{Name: name, Type: parsed, NotNull: notNull})
	}
	return out
}

// readAll reads all splits one after the other: rows as text, cells by "|".
func readAll(t testing.TB, f inputformat.Format, spec inputformat.Spec, parallelism int) (rows []string, stats inputformat.Stats, err error) {
	t.Helper()
	ctx := context.Background()
	for sp, err := range f.Splits(ctx, spec, inputformat.Want{Parallelism: parallelism}) {
		if err != nil {
			return rows, stats, err
		}
		r, err := f.Open(ctx, spec, sp)
		if err != nil {
			return rows, stats, err
		}
		for {
			b, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				if closeErr := r.Close(); closeErr != nil {
					t.Error(closeErr)
				}
				return rows, stats, err
			}
			for k := range b.Rows() {
				row := k
				if b.Sel != nil {
					row = int(b.Sel[k])
				}
				var line []byte
				for i, c := range b.Columns {
					if i > 0 {
						line = append(line, '|')
					}
					line = schema.AppendText(line, spec.Fields()[i].Type, c, row)
				}
				rows = append(rows, string(line))
			}
		}
		s := r.Stats()
		stats.RowsRead += s.RowsRead
		stats.BytesRead += s.BytesRead
		stats.BadCells += s.BadCells
		stats.BadRows += s.BadRows
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	return rows, stats, nil
}

func check(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("rows\n%q, want\n%q", got, want)
	}
}

func TestHiveReadsWhatItCan(t *testing.T) {
	cols := columns(t, "id:int, name:string, price:decimal(5,2), on:date")
	spec := Spec{Columns: cols, Out: cols, Delimiter: "\t"}
	for _, c := range []struct {
		name, content string
		change        func(*Spec)
		bad           int64
		want          []string
	}{
		{name: "plain", content: "1\ta\t1.5\t2020-01-02\n2\tb\t2\t2020-1-3\n", want: []string{"1|a|1.50|2020-01-02", "2|b|2.00|2020-01-03"}},
		{name: "no last newline", content: "1\ta\t1\t2020-01-02", want: []string{"1|a|1.00|2020-01-02"}},
		{name: "CRLF", content: "1\ta\t1\t2020-01-02\r\n2\tb\r\n", want: []string{"1|a|1.00|2020-01-02", "2|b|NULL|NULL"}},
		{name: "too few, too many", content: "1\n2\tb\t3\t2020-01-01\textra\tmore\n", want: []string{"1|NULL|NULL|NULL", "2|b|3.00|2020-01-01"}},
		{name: "null text", content: "\\N\t\\N\t\\N\t\\N\n", want: []string{"NULL|NULL|NULL|NULL"}},
		{name: "unreadable", content: "x\t\t1000\t2020-13-01\n", bad: 3, want: []string{"NULL||NULL|NULL"}},
		{name: "empty is NULL without a count, but text", content: "\t\t\t\n", want: []string{"NULL||NULL|NULL"}},
		{name: "empty is null", content: "\t\t\t\n", change: func(s *Spec) { s.EmptyIsNull = true }, want: []string{"NULL|NULL|NULL|NULL"}},
		{name: "empty line", content: "\n1\ta\n", want: []string{"NULL|NULL|NULL|NULL", "1|a|NULL|NULL"}},
		{name: "empty file", content: ""},
		{name: "header only", content: "id\tname", change: func(s *Spec) { s.SkipHeader = 1 }},
		{name: "header", content: "id\tname\n1\ta\n", change: func(s *Spec) { s.SkipHeader = 1 }, want: []string{"1|a|NULL|NULL"}},
		{name: "byte order mark", content: "\xef\xbb\xbf1\ta\n", want: []string{"1|a|NULL|NULL"}},
		{name: "zero bytes and invalid UTF-8", content: "1\ta\x00\xff\xfeb\n", want: []string{"1|a\x00\xff\xfeb|NULL|NULL"}},
		{name: "escapes", content: "1\ta\\\tb\\\\\\c\\\n2\t\\N\n", change: func(s *Spec) { s.Escape = "\\" }, want: []string{"1|a\tb\\c\\|NULL|NULL", "2|NULL|NULL|NULL"}},
		{name: "another NULL", content: "1\tNA\n2\t\\N\n", change: func(s *Spec) { s.NullText = "NA" }, want: []string{"1|NULL|NULL|NULL", "2|\\N|NULL|NULL"}},
		{name: "a subset", content: "1\ta\t2.5\t2020-01-02\nx\n", change: func(s *Spec) { s.Out = schema.Columns{cols[2], cols[1]} }, want: []string{"2.50|a", "NULL|NULL"}},
		{name: "no column", content: "1\ta\n\n", change: func(s *Spec) { s.Out = nil }, want: []string{"", ""}},
		{name: "default delimiter", content: "1\x01a\n", change: func(s *Spec) { s.Delimiter = "" }, want: []string{"1|a|NULL|NULL"}},
		{name: "a lone CR is data", content: "1\ta\rb\n", want: []string{"1|a\rb|NULL|NULL"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := spec
			if c.change != nil {
				c.change(&s)
			}
			s.Paths = []string{write(t, "in.tsv", c.content)}
			rows, stats, err := readAll(t, New(), s, 1)
			if err != nil {
				t.Fatal(err)
			}
			check(t, rows, c.want...)
			if stats.BadCells != c.bad || stats.RowsRead != int64(len(c.want)) {
				t.Errorf("stats %+v, want %d bad cells", stats, c.bad)
			}
		})
	}
}

// Delimiters and escapes inside nested cells; expected values by hand from the
// rules of LazySimpleSerDe: each level has its own separator, escapes are undone part by part.
func TestNestedCells(t *testing.T) {
	cols := columns(t, "xs:array<int>, m:map<string,double>, s:struct<a:int,b:array<string>>")
	spec := Spec{Columns: cols, Out: cols, Delimiter: "|", Items: ",", MapKeys: ":", Escape: "\\"}
	for content, want := range map[string]string{
		"1,2,3|k:1.5,l:2|5,a:b\n":       `[1,2,3]|{"k":1.5,"l":2.0}|{"a":5,"b":["a","b"]}`,
		"7|a\\,b\\:c\\|d:1|1,x\\,y:z\n": `[7]|{"a,b:c|d":1.0}|{"a":1,"b":["x,y","z"]}`,
		"|\\N|\\N\n":                    `[]|NULL|NULL`,
	} {
		spec.Paths = []string{write(t, "nested.txt", content)}
		rows, _, err := readAll(t, New(), spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		check(t, rows, want)
	}
}

func TestStrict(t *testing.T) {
	cols := columns(t, "id:int, name:string not null, price:decimal(5,2)")
	spec := Spec{Columns: cols, Out: cols, Delimiter: "\t", EmptyIsNull: true, SkipHeader: 1, OnError: Abort}
	for _, c := range []struct{ content, want string }{
		{"h\n1\ta\t1\n\n2\tb\t\n", ""},
		{"h\n1\ta\t1\nx1\tb\t2\n", `PATH, line 3, column id: "x1" is not an int (a whole number from -2147483648 to 2147483647)`},
		{"h\n1\ta\t1000\ny\tb\t2\n", `PATH, line 2, column price: "1000" is not a decimal(5,2) (a number with at most 3 digits before the point)`},
		{"h\n1\ta\t1\n\n\n1\t\t1", `PATH, line 5, column name: no value, but the column is NOT NULL`},
		{"h\n1\ta\n", `PATH, line 2: 2 fields, expected 3: "1\ta"`},
		{"h\n1\ta\t1\t\n", `PATH, line 2: 4 fields, expected 3: "1\ta\t1\t"`},
		{"h\n1\ta\t" + strings.Repeat("z", 100) + "\n", `PATH, line 2, column price: "` + strings.Repeat("z", 80) + `"... is not a decimal(5,2) (a number with at most 3 digits before the point)`},
	} {
		s := spec
		path := write(t, "in.tsv", c.content)
		s.Paths = []string{path}
		_, _, err := readAll(t, New(), s, 1)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), path, "PATH")
			if fault.ClassOf(err) != fault.User {
				t.Errorf("%v is of class %s", err, fault.ClassOf(err))
			}
		}
		if got != c.want {
			t.Errorf("%q:\n%s, want\n%s", c.content, got, c.want)
		}
	}
}

// Reading NULL for what can't be read stops at columns that can't be NULL.
func TestNullWhereNotNull(t *testing.T) {
	for _, c := range []struct{ content, want string }{
		{"1\ta\n2\t\\N\n", `PATH, line 2, column name: no value, but the column is NOT NULL`},
		{"1\ta\n2\tb\n3\n", `PATH, line 3, column name: no value, but the column is NOT NULL`},
		{"1\ta\nx\tb\n", `PATH, line 2, column id: "x" is not an int (a whole number from -2147483648 to 2147483647), and can't be NULL instead: the column is NOT NULL`},
	} {
		path := write(t, "f.txt", c.content)
		cols := columns(t, "id:int not null, name:string not null")
		_, _, err := readAll(t, New(), Spec{Columns: cols, Out: cols, Paths: []string{path}, Delimiter: "\t", Escape: `\`, OnError: Null}, 1)
		if fault.ClassOf(err) != fault.User || !strings.Contains(fmt.Sprint(err), strings.ReplaceAll(c.want, "PATH", path)) {
			t.Errorf("%q: %v, want %s", c.content, err, c.want)
		}
	}
}

func TestSkipKeepsBadLines(t *testing.T) {
	cols := columns(t, "id:int, name:string")
	var in, wantBad strings.Builder
	in.WriteString("id\tname\n")
	want := 0
	for i := range 200_000 {
		if i%1000 == 7 {
			line := fmt.Sprintf("x%d\tbad\n", i)
			in.WriteString(line)
			wantBad.WriteString(line)
			continue
		}
		fmt.Fprintf(&in, "%d\tname %d\n", i, i)
		want++
	}
	path := write(t, "in.tsv", in.String())
	reject := filepath.Join(t.TempDir(), "rejected.tsv")
	s := Spec{Paths: []string{path}, Columns: cols, Out: cols, Delimiter: "\t", SkipHeader: 1, OnError: Skip, RejectPath: reject}
	for range 2 { // a repeated attempt writes the same
		rows, stats, err := readAll(t, New(), s, 4)
		if err != nil || len(rows) != want || stats.BadRows != 200 {
			t.Fatalf("%d rows, %+v, %v; want %d and 200 bad", len(rows), stats, err, want)
		}
	}
	if n, err := CollectRejects(reject); err != nil || n != int64(wantBad.Len()) {
		t.Fatalf("collected %d bytes, %v; want %d", n, err, wantBad.Len())
	}
	got, err := os.ReadFile(reject)
	if err != nil || string(got) != wantBad.String() {
		t.Errorf("rejects %.100q (%v), want %.100q", got, err, wantBad.String())
	}
	if _, err := os.Stat(reject + ".parts"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the parts are still there: %v", err)
	}
	// Without bad rows there is no file.
	s.Paths = []string{write(t, "good.tsv", "h\n1\ta\n")}
	if _, _, err := readAll(t, New(), s, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := CollectRejects(reject); n != 0 || err != nil {
		t.Errorf("collected %d, %v", n, err)
	}
	if _, err := os.Stat(reject); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an old file is still there: %v", err)
	}
}

func TestSplitsCoverTheFileOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cols := columns(t, "id:int, name:string")
	var in strings.Builder
	in.WriteString("id\tname\r\n")
	var want []string
	for i := range 150_000 {
		name := strings.Repeat("x", rng.IntN(30))
		if i == 5000 {
			name = strings.Repeat("long", 700_000) // longer than a split
		}
		fmt.Fprintf(&in, "%d\t%s\n", i, name)
		want = append(want, fmt.Sprintf("%d|%s", i, name))
	}
	s := Spec{Paths: []string{write(t, "in.tsv", in.String())}, Columns: cols, Out: cols, Delimiter: "\t", SkipHeader: 1}
	for _, n := range []int{1, 2, 3, 7} {
		splits := 0
		for _, err := range New().Splits(context.Background(), s, inputformat.Want{Parallelism: n}) {
			if err != nil {
				t.Fatal(err)
			}
			splits++
		}
		if splits < (n+1)/2 { // some are swallowed by the long record
			t.Errorf("%d splits, wanted %d", splits, n)
		}
		rows, _, err := readAll(t, New(), s, n)
		if err != nil || !slices.Equal(rows, want) {
			t.Errorf("%d splits: %d rows (%v), want %d", splits, len(rows), err, len(want))
		}
	}
	// The line number is right in a later split.
	text := in.String() + "oops\tx\n"
	s.Paths, s.OnError = []string{write(t, "bad.tsv", text)}, Abort
	_, _, err := readAll(t, New(), s, 4)
	if err == nil || !strings.Contains(err.Error(), "bad.tsv, line 150002, column id: \"oops\" is not an int") {
		t.Errorf("error %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"b.tsv": "2\n", "a.tsv": "1\n", "_done": "9\n", ".hidden": "9\n", "c.txt": "3\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var z bytes.Buffer
	zw := gzip.NewWriter(&z)
	if _, err := zw.Write([]byte("header\n4\n5")); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	gz := write(t, "z.tsv.gz", z.String())
	cut := write(t, "cut.tsv.gz", z.String()[:z.Len()-6])
	cols := columns(t, "id:int")
	read := func(header int, paths ...string) ([]string, error) {
		rows, _, err := readAll(t, New(), Spec{Paths: paths, Columns: cols, Out: cols, SkipHeader: header}, 3)
		return rows, err
	}
	if rows, err := read(0, dir); err != nil || !slices.Equal(rows, []string{"1", "2", "3"}) {
		t.Errorf("a folder: %v, %v", rows, err)
	}
	if rows, err := read(0, filepath.Join(dir, "*.tsv")); err != nil || !slices.Equal(rows, []string{"1", "2"}) {
		t.Errorf("a pattern: %v, %v", rows, err)
	}
	if rows, err := read(1, gz); err != nil || !slices.Equal(rows, []string{"4", "5"}) {
		t.Errorf("gzip: %v, %v", rows, err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "a.tvs"), "there is no file " + dir + `/a.tvs (did you mean "a.tsv"?)`},
		{filepath.Join(dir, "x", "a.tsv"), "there is no file " + dir + "/x/a.tsv (nor is there a folder " + dir + "/x)"},
		{filepath.Join(dir, "*.nix"), "no file matches " + dir + "/*.nix"},
		{cut, "is damaged: unexpected EOF"},
	} {
		if _, err := read(0, c.path); err == nil || !strings.HasSuffix(err.Error(), c.want) || fault.ClassOf(err) != fault.User {
			t.Errorf("%s: %v, want %s", c.path, err, c.want)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := read(0, dir); err == nil || !strings.Contains(err.Error(), "holds the folder sub") {
		t.Errorf("a folder in a folder: %v", err)
	}
}

func TestAChangedFileIsNoticed(t *testing.T) {
	path := write(t, "in.tsv", "1\n2\n")
	cols := columns(t, "id:int")
	s := Spec{Paths: []string{path}, Columns: cols, Out: cols}
	for sp, err := range New().Splits(context.Background(), s, inputformat.Want{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("1\n2\n3\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := New().Open(context.Background(), s, sp); err == nil || !strings.Contains(err.Error(), "changed while it was read") {
			t.Errorf("error %v", err)
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	cols := columns(t, "id:int")
	for want, s := range map[string]Spec{
		`text file: the delimiter "ab" has 2 bytes, it must have one`:   {Paths: []string{"x"}, Columns: cols, Delimiter: "ab"},
		"text file: the delimiter can't be a line end":                  {Paths: []string{"x"}, Columns: cols, Delimiter: "\n"},
		`text file: "," is both the delimiter and the escape character`: {Paths: []string{"x"}, Columns: cols, Delimiter: ",", Escape: ","},
		"text file: no file is named":                                   {Columns: cols},
		"text file: column b is not among the file's":                   {Paths: []string{"x"}, Columns: cols, Out: schema.Columns{{Name: "b", Type: schema.IntType}}},
	} {
		_, _, err := readAll(t, New(), s, 1)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestSample(t *testing.T) {
	cols := columns(t, "id:int, name:string")
	var in strings.Builder
	in.WriteString("id\tname\n")
	const rows = 300_000
	for i := range rows {
		fmt.Fprintf(&in, "%06d\tname\n", i)
	}
	s := Spec{Paths: []string{write(t, "in.tsv", in.String())}, Columns: cols, Out: cols[:1], Delimiter: "\t", SkipHeader: 1, OnError: Abort}
	r, estRows, estBytes, err := Sample(context.Background(), s, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if estBytes != int64(in.Len()) || estRows < rows*99/100 || estRows > rows*101/100 {
		t.Errorf("estimates %d rows, %d bytes; want %d, %d", estRows, estBytes, rows, in.Len())
	}
	var sum, n int64
	for {
		b, err := r.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.Len {
			sum += schema.FromArrow(b.Columns[0], i, schema.IntType).I
		}
		n += int64(b.Rows())
	}
	if n < 900 || n > 1000 {
		t.Errorf("%d rows in the sample", n)
	}
	// Evenly spread: the mean is near the middle.
	if mean := sum / n; mean < rows*47/100 || mean > rows*53/100 {
		t.Errorf("mean id %d", mean)
	}
}

// TestOccurrences reads the real file where it is.
func TestOccurrences(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "occurrence.tsv")
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the file is not there")
	}
	if err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(string(content), "\n")
	var cols schema.Columns
	for _, name := range strings.Split(header, "\t") {
		cols = append(cols, schema.Column{Name: strings.ToLower(name), Type: schema.StringType})
	}
	if len(cols) != 235 {
		t.Fatalf("%d columns", len(cols))
	}
	cols[cols.Index("gbifid")].Type = schema.BigIntType
	cols[cols.Index("month")].Type = schema.IntType
	s := Spec{Paths: []string{path}, Columns: cols, Delimiter: "\t", SkipHeader: 1, EmptyIsNull: true, OnError: Abort}
	for _, name := range []string{"gbifID", "scientificName", "family", "month"} {
		s.Out = append(s.Out, cols[cols.Index(name)])
	}
	rows, _, err := readAll(t, New(), s, 2)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, r := range rows {
		parts := strings.Split(r, "|")
		count["name "+parts[1]]++
		count["family "+parts[2]]++
		count["month "+parts[3]]++
	}
	for what, want := range map[string]int{"name Poa bulbosa L.": 24, "family Asteraceae": 198, "family Poaceae": 182, "month 7": 912, "month 8": 427, "month 6": 195} {
		if count[what] != want {
			t.Errorf("%s: %d rows, want %d", what, count[what], want)
		}
	}
	if len(rows) != 1534 {
		t.Errorf("%d rows, want 1534", len(rows))
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("1\ta\n2\\\tb\r\n\n"), true, false)
	f.Add([]byte("\\N\t\xff\x00"), false, true)
	f.Fuzz(func(t *testing.T, content []byte, escape, strict bool) {
		cols := columns(t, "id:int, name:string")
		s := Spec{Paths: []string{write(t, "in", string(content))}, Columns: cols, Out: cols, Delimiter: "\t"}
		if escape {
			s.Escape = "\\"
		}
		if strict {
			s.OnError = Skip
		}
		rows, stats, err := readAll(t, New(), s, 2)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.Count(bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), []byte("\n"))
		if n := len(content); n > 0 && content[n-1] != '\n' && string(content) != "\xef\xbb\xbf" {
			lines++
		}
		if !strict && len(rows) != lines || int64(len(rows))+stats.BadRows != stats.RowsRead {
			t.Fatalf("%d rows of %d lines, %+v", len(rows), lines, stats)
		}
	})
}

func BenchmarkText(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var in bytes.Buffer
	const rows = 200_000
	for i := range rows {
		fmt.Fprintf(&in, "%d\tSpecies number %05d\tCountry%03d\t%d\t%.6f\t%.6f\tocc:%016x\t%d\tFamily%02d\tobservation\n", i, rng.IntN(50_000), rng.IntN(200), 1900+rng.IntN(120),
			rng.Float64()*180-90, rng.Float64()*360-180, rng.Uint64(), rng.IntN(1000), rng.IntN(48))
	}
	path := write(b, "in.tsv", in.String())
	cols := columns(b, "id:bigint, name:string, country:string, year:int, lat:double, lon:double, uid:string, n:int, family:string, basis:string")
	s := Spec{Paths: []string{path}, Columns: cols, Out: cols, Delimiter: "\t", EmptyIsNull: true, OnError: Abort}
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
}
