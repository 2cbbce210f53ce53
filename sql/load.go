package sql

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// OnError says what becomes of a row with a cell that can't be read.
type OnError uint8

// Null makes such cells NULL, Abort fails the load, Skip leaves the row out.
const (
	Null OnError = iota
	Abort
	Skip
)

// Files are delimited text files and how to read them.
type Files struct {
	Paths []string
	CSV   bool // RFC 4180 quotes; else backslash-style Escape, if any
	// Columns are the fields of a line, in order. Those that no column of Out
	// names are not looked at.
	Columns schema.Columns
	// Out are the columns to read, named as in Columns.
	Out         schema.Columns
	Delimiter   string // one byte; "" = the format's default
	Quote       string // CSV, one byte; "" = "
	Escape      string // one byte; "" = none
	Items       string // between the parts of a nested value, one byte; "" = \x02
	MapKeys     string // between key and value of a map, one byte; "" = \x03
	NullText    string // what NULL is written as; "" = \N
	EmptyIsNull bool   // an empty field is NULL
	SkipHeader  int    // lines at the start of each file
	OnError     OnError
	Reject      string // file for rows that are skipped
}

// Load is a load of files into a table.
type Load struct {
	Table     *catalog.Table
	Files     Files // Out is filled in
	Overwrite bool
	// Static are values of the first partition columns; the last fields of a
	// line have those of the others.
	Static []schema.Datum
	Name   string // for job lists
}

// LoadPlan returns the job that loads files. The files' columns go to the
// table's columns of the same name; the table's others become NULL.
func LoadPlan(ctx context.Context, env *Env, l Load) (*Query, error) {
	n, err := loadPlan(ctx, env, l)
	if err != nil {
		return nil, err
	}
	return &Query{Kind: KindLoad, Plan: n, Table: l.Table, Name: l.Name}, nil
}

func loadPlan(ctx context.Context, env *Env, l Load) (plan.Node, error) {
	files := l.Files
	files.Columns = slices.Clone(files.Columns)
	files.Out = nil
	all := l.Table.AllColumns()
	for _, c := range all {
		if i := l.Table.PartitionColumns.ByID(c.ID); i >= 0 && i < len(l.Static) {
			continue
		}
		if i := files.Columns.Index(c.Name); i >= 0 {
			files.Columns[i] = c // the file's column is read in the table's type
			files.Out = append(files.Out, c)
		}
	}
	for _, k := range l.Table.Key {
		if files.Out.ByID(k.Column) < 0 {
			return nil, fault.Userf("the file has no column %s, which is part of the row key of %s",
				l.Table.Columns[l.Table.Columns.ByID(k.Column)].Name, l.Table.Name)
		}
	}
	spec, err := env.Specs.Files(files)
	if err != nil {
		return nil, err
	}
	var n plan.Node = &plan.Scan{Spec: spec, Rows: -1}
	if len(files.Out) < len(all) {
		p := &plan.Project{Input: n}
		for _, c := range all {
			var e plan.Expr = &plan.Literal{Value: schema.NullOf(c.Type)}
			if i := files.Out.ByID(c.ID); i >= 0 {
				e = &plan.Column{Index: i, Name: c.Name, T: c.Type}
			} else if i := l.Table.PartitionColumns.ByID(c.ID); i >= 0 && i < len(l.Static) {
				e = &plan.Literal{Value: l.Static[i]}
			}
			p.Exprs = append(p.Exprs, e)
			p.Names = append(p.Names, c.Name)
		}
		n = p
	}
	if n, err = byRegion(ctx, env, l.Table, n, &files); err != nil {
		return nil, err
	}
	return &plan.Write{Input: n, Spec: env.Specs.Table(Write{Table: l.Table, Overwrite: l.Overwrite, Kind: catalog.TxnLoad, Static: l.Static,
		Most: defaultMostPartitions, MostOfTask: defaultMostPartitions})}, nil
}

// load compiles LOAD DATA: the table's ROW FORMAT says how files look, and a
// cell that can't be read is NULL.
func (c *compiler) load(ctx context.Context, s *ast.Load) (Load, error) {
	t, err := c.writable(ctx, s.Table)
	if err != nil {
		return Load{}, err
	}
	static, err := c.staticValues(t, s.Partition)
	if err != nil {
		return Load{}, err
	}
	paths, err := c.paths(ctx, s)
	if err != nil {
		return Load{}, analyzer.At(s.PathPos, err)
	}
	if err := checkText(t, paths); err != nil {
		return Load{}, analyzer.At(s.PathPos, err)
	}
	columns := t.Columns
	if len(static) < len(t.PartitionColumns) { // the rest is in the lines
		columns = slices.Concat(t.Columns, t.PartitionColumns[len(static):])
	}
	f := Files{Paths: paths, Columns: columns, CSV: t.RowFormat.CSV, Delimiter: t.RowFormat.FieldDelimiter, Escape: t.RowFormat.Escape, Items: t.RowFormat.CollectionDelim, MapKeys: t.RowFormat.MapKeyDelim, NullText: t.RowFormat.NullText}
	if !f.CSV && f.Delimiter == "" {
		f.Delimiter = "\x01"
	}
	for key, value := range t.Properties {
		switch strings.ToLower(key) {
		case "skip.header.line.count":
			n, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil || n < 0 {
				return Load{}, &fault.Error{Class: fault.User, SQLState: fault.StateSyntax, Line: s.Line, Column: s.Column,
					Message: "table " + t.Name + " has skip.header.line.count = '" + value + "', which is no number of lines"}
			}
			f.SkipHeader = n
		case propertyNull:
			f.NullText = value
			f.EmptyIsNull = value == ""
		}
	}
	if t.RowFormat.CSV {
		f.Quote = t.Properties[propertyQuote]
	}
	return Load{Table: t, Files: f, Overwrite: s.Overwrite, Static: static, Name: s.Text}, nil
}

func (c *compiler) paths(ctx context.Context, s *ast.Load) ([]string, error) {
	if s.Local && c.env.Local != nil {
		return c.env.Local(ctx, s.Path)
	}
	return ListFiles(c.env.Base, s.Path)
}

// magics are how files of formats that are not text begin.
var magics = []struct{ format, magic string }{{"ORC", "ORC"}, {"Parquet", "PAR1"}, {"SequenceFile", "SEQ"}, {"RCFile", "RCF"}, {"Avro", "Obj\x01"}}

// checkText refuses files that aren't text, and a table whose files aren't.
func checkText(t *catalog.Table, paths []string) error {
	for _, path := range paths {
		head := make([]byte, 8)
		f, err := os.Open(path)
		if err != nil {
			return nil // reading it says why
		}
		n, _ := io.ReadFull(f, head)
		if err := f.Close(); err != nil {
			return fault.Userf("%s: %w", path, err)
		}
		for _, m := range magics {
			if strings.HasPrefix(string(head[:n]), m.magic) {
				return fault.Unsupportedf("loading %s files (%s)", m.format, path)
			}
		}
		if !textFiles(t) && n > 0 {
			return fault.Userf("table %s is STORED AS %s, but %s is not such a file", t.Name, t.StoredAs, path)
		}
	}
	return nil
}

// ListFiles lists the files that a LOAD DATA names: a file, all files of a folder,
// or those that match a pattern; hidden ones (. and _) are left out as in Hive.
// Relative paths start from base.
func ListFiles(base, named string) ([]string, error) {
	path := named
	if u, err := url.Parse(path); err == nil && len(u.Scheme) > 1 {
		if u.Scheme != "file" {
			return nil, fault.Unsupportedf("LOAD DATA from %s: URLs", u.Scheme)
		}
		path = u.Path
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	found, err := filepath.Glob(path)
	if err != nil {
		return nil, fault.Userf("path '%s': %w", named, err)
	}
	if _, err := os.Stat(path); err == nil { // a name that looks like a pattern
		found = []string{path}
	}
	var out []string
	for _, f := range found {
		info, err := os.Stat(f)
		switch {
		case err != nil:
			return nil, fault.Userf("path '%s': %w", named, err)
		case !info.IsDir():
			out = append(out, f)
			continue
		}
		entries, err := os.ReadDir(f)
		if err != nil {
			return nil, fault.Userf("path '%s': %w", named, err)
		}
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() && name[0] != '.' && name[0] != '_' {
				out = append(out, filepath.Join(f, name))
			}
		}
	}
	if len(out) == 0 {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if path == named {
				return nil, fault.Userf("there is no file '%s'", named)
			}
			return nil, fault.Userf("there is no file '%s' (looked for %s)", named, path)
		}
		return nil, fault.Userf("there is no file to load in '%s'", named)
	}
	for _, f := range out {
		if ext := strings.ToLower(filepath.Ext(f)); ext == ".xz" || ext == ".zip" || ext == ".snappy" || ext == ".lzo" {
			return nil, fault.Unsupportedf("loading compressed files (%s)", f)
		}
	}
	return out, nil
}
