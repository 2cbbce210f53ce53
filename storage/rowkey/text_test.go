package rowkey

import (
	"testing"

	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/storage"
)

func TestRangeText(t *testing.T) {
	one := []Column{{Type: schema.BigIntType}}
	three := []Column{{Type: schema.StringType}, {Type: schema.IntType, Desc: true}, {Type: schema.DateType}}
	key := func(columns []Column, values ...any) storage.Key {
		var out []byte
		for i, v := range values {
			d := schema.Datum{Type: columns[i].Type}
			switch v := v.(type) {
			case nil:
				d.Null = true
			case int:
				d.I = int64(v)
			case string:
				d.S = v
			}
			k, err := NewEncoder(columns[i:i+1]).AppendDatums(out, []schema.Datum{d})
			if err != nil {
				t.Fatal(err)
			}
			out = k
		}
		return out
	}
	for _, c := range []struct {
		columns    []Column
		start, end storage.Key
		want       string
	}{
		{one, key(one, 250), successor(key(one, 250)), "[250]"},
		{one, key(one, -1), successor(key(one, -1)), "[-1]"}, // the successor is short: 01 80
		{one, key(one, 100), key(one, 200), "[100, 200)"},
		{one, successor(key(one, -1)), nil, "(-1, highest]"},
		{one, nil, key(one, 7), "[lowest, 7)"},
		{one, nil, nil, "[lowest, highest]"},
		{one, key(one, nil), successor(key(one, nil)), "[NULL]"},
		{one, successor(key(one, nil)), key(one, 5), "(NULL, 5)"},
		{one, key(one, 1), storage.Key{1, 0x80}, "[1, -1]"}, // empty, but well told
		{one, storage.Key{7, 7}, nil, "[0x0707, highest]"},
		{three, key(three, "p"), successor(key(three, "p")), "['p', ...]"},
		{three, key(three, "p", 1), successor(key(three, "p", 1)), "['p', 1, ...]"},
		{three, key(three, "p", 1, 3), successor(key(three, "p", 1, 3)), "['p', 1, 1970-01-04]"},
		{three, key(three, "p"), key(three, "p", 1), "[('p'), ('p', 1))"},
		{three, key(three, "it's"), key(three, "r"), "[('it\\'s'), ('r'))"},
		{three, key(three, "p", 0), successor(key(three, "p", 0)), "['p', 0, ...]"},
		{three, key(three, "p", -1), successor(key(three, "p", -1)), "['p', -1, ...]"},
		{three, successor(key(three, "p", nil)), key(three, "q"), "(('p'), ('q'))"},
	} {
		if got := RangeText(c.columns, storage.KeyRange{Start: c.start, End: c.end}); got != c.want {
			t.Errorf("[%x, %x): %s, want %s", []byte(c.start), []byte(c.end), got, c.want)
		}
	}
}
