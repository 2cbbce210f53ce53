package sql

import (
	"context"
	"path/filepath"

	"github.com/skepdb/skep/catalog"
	outputtext "github.com/skepdb/skep/outputformat/text"
	"github.com/skepdb/skep/sql/analyzer"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// insertDirectory compiles INSERT OVERWRITE [LOCAL] DIRECTORY: delimited text
// files, which replace what is in the directory in one step.
func (c *compiler) insertDirectory(ctx context.Context, s *ast.Insert) (*Query, plan.Node, error) {
	d := s.Directory
	path, ok := localPath(d.Path)
	if !ok {
		return nil, nil, unsupportedAt(d.Pos, "INSERT OVERWRITE DIRECTORY '"+d.Path+"': URLs")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.env.Base, path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, nil, failAt(d.Pos, "path '%s': %w", d.Path, err)
	}
	var t catalog.Table // what ROW FORMAT and STORED AS say
	if d.RowFormat != nil {
		if err := rowFormat(d.RowFormat, &t); err != nil {
			return nil, nil, err
		}
	}
	if err := stored(ast.Stored{Pos: d.Pos, As: d.StoredAs}, &t); err != nil {
		return nil, nil, err
	}
	if !textFiles(&t) {
		return nil, nil, unsupportedAt(d.Pos, "INSERT OVERWRITE DIRECTORY of other files than text")
	}
	n, err := c.analyzer().Query(ctx, s.Query)
	if err != nil {
		return nil, nil, err
	}
	if n, err = c.optimize(n); err != nil {
		return nil, nil, analyzer.At(joinPlace(s.Query), err)
	}
	spec := outputtext.Spec{Dir: path, Style: outputtext.Text, Overwrite: true,
		Delimited: outputtext.Delimited{Field: t.RowFormat.FieldDelimiter, Escape: t.RowFormat.Escape}}
	if t.RowFormat.CSV {
		spec.Style = outputtext.CSV
	}
	if null, ok := t.Properties[propertyNull]; ok {
		spec.Delimited.Null = &null
	} else if t.RowFormat.NullText != "" {
		spec.Delimited.Null = &t.RowFormat.NullText
	}
	return &Query{Kind: KindInsert, Name: s.Text}, &plan.Write{Input: n, Spec: spec}, nil
}
