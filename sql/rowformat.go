package sql

import (
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/sql/ast"
)

// Table properties, named as Hive names them, in which a table keeps what its
// ROW FORMAT says and catalog.RowFormat has no field for.
const (
	propertyQuote    = "quoteChar"
	propertyNull     = "serialization.null.format"
	propertyExternal = "EXTERNAL"
)

// delimiter reads a delimiter as Hive's LazySimpleSerDe does: a number is a
// byte's code, of other text the first byte counts.
func delimiter(text string) string {
	if text == "" {
		return ""
	}
	if n, err := strconv.ParseInt(text, 10, 8); err == nil {
		return string([]byte{byte(n)})
	}
	return text[:1]
}

// rowFormat translates ROW FORMAT.
func rowFormat(f *ast.RowFormat, t *catalog.Table) error {
	r := &t.RowFormat
	if f.Serde != "" {
		return setSerde(f.Pos, f.Serde, f.SerdeProperties, t)
	}
	for _, p := range f.SerdeProperties {
		if err := setSerdeProperty(t, p); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		from string
		to   *string
	}{{f.Fields, &r.FieldDelimiter}, {f.Escape, &r.Escape}, {f.Collection, &r.CollectionDelim}, {f.MapKeys, &r.MapKeyDelim}, {f.Lines, &r.LineDelimiter}} {
		if d.from != "" {
			*d.to = delimiter(d.from)
		}
	}
	if r.LineDelimiter != "" && r.LineDelimiter != "\n" {
		return failAt(f.Pos, "LINES TERMINATED BY only takes '\\n'")
	}
	if f.Null != nil {
		if r.NullText = *f.Null; *f.Null == "" {
			setProperty(t, propertyNull, "")
		}
	}
	return nil
}

func setProperty(t *catalog.Table, key, value string) {
	if t.Properties == nil {
		t.Properties = map[string]string{}
	}
	t.Properties[key] = value
}

// The last parts of the names of SerDes, in lower case. Text files are read as
// the first two say; the others are hints.
const (
	serdeSimple = "lazysimpleserde"
	serdeCSV    = "opencsvserde"
)

var hintSerdes = map[string]bool{"orcserde": true, "parquethiveserde": true, "avroserde": true, "columnarserde": true,
	"lazybinarycolumnarserde": true, "lazybinaryserde": true, "binarysortableserde": true, "metadatatypedcolumnsetserde": true}

// setSerde takes over ROW FORMAT SERDE.
func setSerde(pos ast.Pos, name string, props []ast.Property, t *catalog.Table) error {
	short := strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch {
	case short == serdeSimple:
	case short == serdeCSV:
		t.RowFormat.CSV, t.RowFormat.FieldDelimiter = true, ","
	case hintSerdes[short]:
	default:
		return unsupportedAt(pos, "ROW FORMAT SERDE '"+name+"' (LazySimpleSerDe and OpenCSVSerde are)")
	}
	t.Serde, t.SerdeProperties = name, nil
	for _, p := range props {
		if err := setSerdeProperty(t, p); err != nil {
			return err
		}
	}
	return nil
}

// setSerdeProperty takes over one of SERDEPROPERTIES. Those that say nothing
// of text files are kept as they are.
func setSerdeProperty(t *catalog.Table, p ast.Property) error {
	r := &t.RowFormat
	if t.SerdeProperties == nil {
		t.SerdeProperties = map[string]string{}
	}
	t.SerdeProperties[p.Key] = p.Value
	switch key := strings.ToLower(p.Key); {
	case r.CSV && key == "separatorchar":
		r.FieldDelimiter = delimiter(p.Value)
	case r.CSV && key == "quotechar":
		if len(p.Value) != 1 {
			return failAt(p.Pos, "quoteChar '%s': want one byte", p.Value)
		}
		if p.Value != `"` {
			setProperty(t, propertyQuote, p.Value)
		}
	case r.CSV && key == "escapechar":
		r.Escape = delimiter(p.Value)
	case r.CSV:
	case key == "field.delim", key == "serialization.format" && r.FieldDelimiter == "":
		r.FieldDelimiter = delimiter(p.Value)
	case key == "escape.delim":
		r.Escape = delimiter(p.Value)
	case key == "serialization.null.format":
		if r.NullText = p.Value; p.Value == "" {
			setProperty(t, propertyNull, "")
		}
	case key == "collection.delim", key == "colelction.delim":
		r.CollectionDelim = delimiter(p.Value)
	case key == "mapkey.delim":
		r.MapKeyDelim = delimiter(p.Value)
	}
	return nil
}

// fileFormats are the names of STORED AS. Rows of a managed table live in
// regions whatever they say; they tell LOAD DATA which files to expect.
var fileFormats = []string{"textfile", "sequencefile", "rcfile", "orc", "orcfile", "parquet", "parquetfile", "avro", "avrofile", "jsonfile"}

// inputFormats are the names of input format classes, by what they read.
var inputFormats = map[string]string{"textinputformat": "textfile", "sequencefileinputformat": "sequencefile", "rcfileinputformat": "rcfile",
	"orcinputformat": "orc", "mapredparquetinputformat": "parquet", "avrocontainerinputformat": "avro", "combinehiveinputformat": "textfile",
	"hiveinputformat": "textfile", "bucketizedhiveinputformat": "textfile", "symlinktextinputformat": "textfile"}

// stored takes over STORED AS and STORED BY.
func stored(s ast.Stored, t *catalog.Table) error {
	switch {
	case s.By != "":
		return unsupportedAt(s.Pos, "STORED BY '"+s.By+"'")
	case s.Input != "":
		short := strings.ToLower(s.Input[strings.LastIndexAny(s.Input, ".$")+1:])
		format, ok := inputFormats[short]
		if !ok {
			return unsupportedAt(s.Pos, "STORED AS INPUTFORMAT '"+s.Input+"'")
		}
		if t.StoredAs = format; format == "textfile" {
			t.StoredAs = ""
		}
	case s.As != "":
		for _, f := range fileFormats {
			if strings.EqualFold(f, s.As) {
				t.StoredAs = s.As
				return nil
			}
		}
		return userError(s.Pos, "42000", nearest.Hint(strings.ToLower(s.As), fileFormats), "unknown format %s: want one of %s", s.As, strings.Join(fileFormats, ", "))
	}
	return nil
}

// textFiles reports whether a table's files, if it has any, are delimited text.
func textFiles(t *catalog.Table) bool {
	if t.StoredAs != "" && !strings.EqualFold(t.StoredAs, "textfile") {
		return false
	}
	short := strings.ToLower(t.Serde[strings.LastIndexByte(t.Serde, '.')+1:])
	return short == "" || short == serdeSimple || short == serdeCSV
}

// localPath returns the path that a LOCATION or INPATH names on this machine.
func localPath(place string) (string, bool) {
	if u, err := url.Parse(place); err == nil && len(u.Scheme) > 1 {
		if u.Scheme != "file" {
			return "", false
		}
		return filepath.Clean(u.Path), true
	}
	return place, place != ""
}
