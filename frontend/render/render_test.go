package render

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// example is three rows of id, name and ratio; the middle one is not selected
// in the second batch.
func example() ([]schema.Field, []*batch.Batch) {
	fields := []schema.Field{{Name: "id", Type: schema.IntType}, {Name: "full name", Type: schema.StringType},
		{Name: "ratio", Type: schema.DoubleType}}
	column := func(t schema.Type, cells ...string) arrow.Array {
		values := make([]schema.Datum, len(cells))
		for i, c := range cells {
			if c == "NULL" {
				values[i] = schema.NullOf(t)
				continue
			}
			values[i], _ = schema.ParseText(t, []byte(c))
		}
		return schema.ArrayOf(t, values)
	}
	b := &batch.Batch{Len: 2, Columns: []arrow.Array{
		column(schema.IntType, "1", "NULL"),
		column(schema.StringType, "Poa \"annua\", L.", "NULL"),
		column(schema.DoubleType, "1.5", "NaN")}}
	c := &batch.Batch{Len: 3, Sel: []int32{0, 2}, Columns: []arrow.Array{
		column(schema.IntType, "3", "99", "4"),
		column(schema.StringType, "", "hidden", "Grüße|\ttab"),
		column(schema.DoubleType, "10000000000", "0", "-0.0")}}
	return fields, []*batch.Batch{b, c}
}

func TestFormats(t *testing.T) {
	for format, want := range map[Format]string{
		TSV: "id\tfull name\tratio\n" +
			"1\tPoa \"annua\", L.\t1.5\n" +
			"NULL\tNULL\tNaN\n" +
			"3\t\t1.0E10\n" +
			"4\tGrüße|\ttab\t-0.0\n",
		CSV: "id,full name,ratio\n" +
			"1,\"Poa \"\"annua\"\", L.\",1.5\n" +
			",,NaN\n" +
			"3,\"\",1.0E10\n" +
			"4,Grüße|\ttab,-0.0\n",
		JSONL: `{"id":1,"full name":"Poa \"annua\", L.","ratio":1.5}` + "\n" +
			`{"id":null,"full name":null,"ratio":"NaN"}` + "\n" +
			`{"id":3,"full name":"","ratio":1.0E10}` + "\n" +
			`{"id":4,"full name":"Grüße|\ttab","ratio":-0.0}` + "\n",
		Vertical: "" +
			"id         1\n" +
			"full name  Poa \"annua\", L.\n" +
			"ratio      1.5\n\n" +
			"id         NULL\n" +
			"full name  NULL\n" +
			"ratio      NaN\n\n" +
			"id         3\n" +
			"full name  \n" +
			"ratio      1.0E10\n\n" +
			"id         4\n" +
			"full name  Grüße|\ttab\n" +
			"ratio      -0.0\n",
		Table: "" +
			"+------+-----------------+--------+\n" +
			"| id   | full name       | ratio  |\n" +
			"+------+-----------------+--------+\n" +
			"|    1 | Poa \"annua\", L. |    1.5 |\n" +
			"| NULL | NULL            |    NaN |\n" +
			"|    3 |                 | 1.0E10 |\n" +
			"|    4 | Grüße|\\ttab     |   -0.0 |\n" +
			"+------+-----------------+--------+\n",
		Markdown: "" +
			"| id   | full name       | ratio  |\n" +
			"|-----:|-----------------|-------:|\n" +
			"|    1 | Poa \"annua\", L. |    1.5 |\n" +
			"| NULL | NULL            |    NaN |\n" +
			"|    3 |                 | 1.0E10 |\n" +
			"|    4 | Grüße\\|\\ttab    |   -0.0 |\n",
	} {
		t.Run(string(format), func(t *testing.T) {
			fields, batches := example()
			var out bytes.Buffer
			w, err := NewWriter(&out, fields, Options{Format: format, Header: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range batches {
				if err := w.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.End(); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("got\n%swant\n%s", out.String(), want)
			}
		})
	}
}

// The objects are those of the contract of the command line.
func TestStatement(t *testing.T) {
	var out bytes.Buffer
	fields, batches := example()
	s := NewStatement(&out, 1, "select \"x\"\n", fields)
	if err := s.Write(batches[0]); err != nil {
		t.Fatal(err)
	}
	if err := s.End(nil, nil, 1200*time.Microsecond); err != nil {
		t.Fatal(err)
	}
	affected := int64(3)
	if err := NewStatement(&out, 2, "insert", nil).End(&affected, nil, 0); err != nil {
		t.Fatal(err)
	}
	failed := &fault.Error{Class: fault.User, SQLState: "42S22", Message: "no such column", Line: 2, Column: 7}
	if err := NewStatement(&out, 3, "bad", nil).End(nil, failed, 0); err != nil {
		t.Fatal(err)
	}
	if err := NewStatement(&out, 4, "\x01\xff", nil).End(nil, errors.New("boom"), 0); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`{"statement":1,"sql":"select \"x\"\n","columns":[{"name":"id","type":"int"},{"name":"full name","type":"string"},` +
			`{"name":"ratio","type":"double"}],"rows":[["1","Poa \"annua\", L.","1.5"],[null,null,"NaN"]],` +
			`"affected":null,"error":null,"elapsed_ms":1.2}`,
		`{"statement":2,"sql":"insert","columns":[],"rows":null,"affected":3,"error":null,"elapsed_ms":0}`,
		`{"statement":3,"sql":"bad","columns":[],"rows":null,"affected":null,"error":{"class":"user","sqlstate":"42S22",` +
			`"message":"no such column","line":2,"column":7},"elapsed_ms":0}`,
		`{"statement":4,"sql":"\u0001\ufffd","columns":[],"rows":null,"affected":null,"error":{"class":"bug","sqlstate":"XX000",` +
			`"message":"boom","line":null,"column":null},"elapsed_ms":0}`,
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestParseFormat(t *testing.T) {
	if f, err := ParseFormat("jsonl"); err != nil || f != JSONL {
		t.Errorf("%v, %v", f, err)
	}
	if _, err := ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "markdown") {
		t.Errorf("an unknown format must name the known ones: %v", err)
	}
}
