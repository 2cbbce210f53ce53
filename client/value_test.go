package client

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/skepdb/skep/schema"
)

func nested(text string) schema.Type {
	t, err := schema.ParseType(text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestDatumOf(t *testing.T) {
	noon := time.Date(1969, 12, 31, 12, 0, 0, 5, time.UTC)
	for _, c := range []struct {
		typ  schema.Type
		in   any
		want any // what goValue makes of it; an error's text as errText
	}{
		{schema.IntType, 7, int32(7)},
		{schema.IntType, uint8(7), int32(7)},
		{schema.IntType, "7", int32(7)},
		{schema.IntType, 7.0, int32(7)},
		{schema.IntType, 7.5, errText("7.5 is no value of type int")},
		{schema.IntType, "7.5", errText(`"7.5" is no value of type int`)},
		{schema.IntType, int64(1) << 40, errText(`"1099511627776" is no value of type int`)},
		{schema.TinyIntType, -128, int8(-128)},
		{schema.TinyIntType, -129, errText("type tinyint")},
		{schema.BigIntType, json.Number("9223372036854775807"), int64(9223372036854775807)},
		{schema.BigIntType, json.Number("9223372036854775808"), errText("type bigint")},
		{schema.BooleanType, true, true},
		{schema.BooleanType, 1, errText("type boolean")},
		{schema.BooleanType, "FALSE", false},
		{schema.DoubleType, 1, 1.0},
		{schema.FloatType, 0.1, float32(0.1)},
		{schema.DecimalType(5, 2), "12.345", Decimal("12.35")},
		{schema.DecimalType(5, 2), 1000, errText("type decimal(5,2)")},
		{schema.StringType, "a", "a"},
		{schema.StringType, 7, errText("type string")},
		{schema.StringType, "", ""},
		{schema.BinaryType, []byte{0xff, 0}, []byte{0xff, 0}},
		{schema.DateType, noon, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC)},
		{schema.DateType, "2024-02-30", errText("type date")},
		{schema.TimestampType, noon, noon},
		{schema.TimestampType, nil, nil},
		{schema.IntType, struct{}{}, errText("type int")},
		{nested("array<int>"), []any{1, nil, "3"}, "[1,null,3]"},
		{nested("array<int>"), []any{1, "x"}, errText(`element 1: "x" is no value of type int`)},
		{nested("array<int>"), map[string]any{}, errText("type array<int>")},
		{nested("map<int,string>"), map[string]any{"2": "b", "1": nil}, `{1:null,2:"b"}`},
		{nested("map<int,string>"), map[string]any{"x": "b"}, errText(`"x": "x" is no value of type int`)},
		{nested("struct<a:int,b:array<string>>"), map[string]any{"b": []any{"x"}}, `{"a":null,"b":["x"]}`},
		{nested("struct<a:int,berry:int>"), map[string]any{"bery": 1}, errText(`has no field "bery"`)},
		{nested("uniontype<int,string>"), map[string]any{"1": "x"}, `{1:"x"}`},
		{nested("uniontype<int,string>"), map[string]any{"2": "x"}, errText("they are numbered from 0 to 1")},
		{nested("uniontype<int,string>"), map[string]any{"0": 1, "1": "x"}, errText("an object of 2 members")},
	} {
		d, err := datumOf(c.typ, c.in)
		if want, isError := c.want.(errText); isError {
			if err == nil || !strings.Contains(err.Error(), string(want)) {
				t.Errorf("%v as %s: %v, want an error with %q", c.in, c.typ, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v as %s: %v", c.in, c.typ, err)
			continue
		}
		if diff := cmp.Diff(c.want, goValue(d)); diff != "" {
			t.Errorf("%v as %s: %s", c.in, c.typ, diff)
		}
	}
}

type errText string

func TestDefinitionSQL(t *testing.T) {
	d := TableDefinition{Name: "db.Obs", Columns: []Column{{"order", "int"}, {"at", "timestamp"}}, Key: []string{"order", "at desc"},
		Regions: 4, Comment: "it's"}
	want := "CREATE TABLE `db`.`obs` (`order` int, `at` timestamp) COMMENT 'it\\'s' ROW KEY (`order`, `at` desc) SPLIT INTO 4"
	if got := d.sql(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
