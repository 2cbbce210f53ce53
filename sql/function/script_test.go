package function

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cockroachdb/datadriven"

	"github.com/skepdb/skep/batch"
	"github.com/skepdb/skep/schema"
)

// TestScripts runs testdata/*.txt: after "eval", a call a line; below, its
// type and value. Each call is computed three times: of constants, of columns
// with NULLs in between, and of dictionary-coded columns; all must agree.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "eval" {
				d.Fatalf(t, "unknown command %q", d.Cmd)
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				if line == "" {
					continue
				}
				p := &callParser{text: line, t: t}
				v, typ := p.value()
				if p.err != nil {
					fmt.Fprintf(&out, "%s -> error: %v\n", line, p.err)
					continue
				}
				fmt.Fprintf(&out, "%s -> %s %s\n", line, typ, render(typ, v.Array))
			}
			return out.String()
		})
	})
}

func render(t schema.Type, a arrow.Array) string {
	if a.NullN() > 0 || a.DataType().ID() == arrow.NULL {
		return "NULL"
	}
	if t.IsText() {
		x := batch.TextOf(a)
		return strconv.Quote(x.String(0))
	}
	return string(schema.AppendText(nil, t, a, 0))
}

// callParser reads and computes calls: name(value, ...), cast(value as type)
// and literals: 1 1Y 1S 1L 1.5D 1.5F 1.5BD 'text' true NULL date'..' timestamp'..'.
type callParser struct {
	text string
	at   int
	err  error
	t    *testing.T
}

var testContext = &Context{Now: time.Date(2024, 2, 29, 12, 34, 56, 789e6, time.UTC)}

func (p *callParser) fail(format string, args ...any) (Vector, schema.Type) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
	return nullOf(schema.VoidType), schema.VoidType
}

func (p *callParser) skip() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

func (p *callParser) accept(s string) bool {
	p.skip()
	if strings.HasPrefix(p.text[p.at:], s) {
		p.at += len(s)
		return true
	}
	return false
}

func (p *callParser) until(stop string) string {
	start := p.at
	for p.at < len(p.text) && !strings.ContainsRune(stop, rune(p.text[p.at])) {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *callParser) literal(t schema.Type, text string) (Vector, schema.Type) {
	d, ok := schema.ParseText(t, []byte(text))
	if !ok {
		return p.fail("%q is not a %s", text, t)
	}
	return Vector{Array: schema.ArrayOf(t, []schema.Datum{d}), Const: true}, t
}

func (p *callParser) quoted() string {
	p.at++ // '
	var b strings.Builder
	for p.at < len(p.text) && p.text[p.at] != '\'' {
		if p.text[p.at] == '\\' && p.at+1 < len(p.text) && strings.ContainsRune(`'n\t`, rune(p.text[p.at+1])) {
			p.at++
			b.WriteByte(map[byte]byte{'\'': '\'', 'n': '\n', '\\': '\\', 't': '\t'}[p.text[p.at]])
			p.at++
			continue
		}
		b.WriteByte(p.text[p.at])
		p.at++
	}
	p.at++
	return b.String()
}

func (p *callParser) value() (Vector, schema.Type) {
	if p.err != nil {
		return p.fail("")
	}
	p.skip()
	switch {
	case p.accept("NULL"):
		return nullOf(schema.VoidType), schema.VoidType
	case p.accept("true"):
		return p.literal(schema.BooleanType, "true")
	case p.accept("false"):
		return p.literal(schema.BooleanType, "false")
	case p.accept("date'"):
		p.at--
		return p.literal(schema.DateType, p.quoted())
	case p.accept("timestamp'"):
		p.at--
		return p.literal(schema.TimestampType, p.quoted())
	case p.at < len(p.text) && p.text[p.at] == '\'':
		return Vector{Array: batch.NewStrings([]string{p.quoted()}), Const: true}, schema.StringType
	case p.accept("cast("):
		v, from := p.value()
		if !p.accept("as ") {
			return p.fail("cast without as")
		}
		depth, start := 0, p.at
		for ; p.at < len(p.text) && (depth > 0 || p.text[p.at] != ')'); p.at++ {
			switch p.text[p.at] {
			case '(':
				depth++
			case ')':
				depth--
			}
		}
		to, err := schema.ParseType(p.text[start:p.at])
		p.at++
		if err != nil {
			return p.fail("%v", err)
		}
		return p.cast(v, from, to), to
	}
	word := p.until("(, )")
	if p.at < len(p.text) && p.text[p.at] == '(' && (word == "" || !strings.ContainsRune("0123456789", rune(word[0])) && !(len(word) > 1 && word[0] == '-')) {
		p.at++
		var args []Vector
		var types []schema.Type
		for !p.accept(")") {
			if len(args) > 0 && !p.accept(",") {
				return p.fail("no comma at %q", p.text[p.at:])
			}
			v, t := p.value()
			if p.err != nil {
				return v, t
			}
			args, types = append(args, v), append(types, t)
		}
		return p.call(word, args, types)
	}
	for _, k := range []struct {
		suffix string
		t      schema.Type
	}{{"BD", schema.DecimalType(0, 0)}, {"Y", schema.TinyIntType}, {"S", schema.SmallIntType}, {"L", schema.BigIntType},
		{"D", schema.DoubleType}, {"F", schema.FloatType}, {"", schema.IntType}} {
		if text, ok := strings.CutSuffix(word, k.suffix); ok {
			if k.t.Kind == schema.Decimal {
				digits := strings.TrimLeft(strings.ReplaceAll(text, ".", ""), "-0")
				scale := 0
				if dot := strings.IndexByte(text, '.'); dot >= 0 {
					scale = len(text) - dot - 1
				}
				k.t = schema.DecimalType(uint8(max(len(digits), scale, 1)), uint8(scale))
			}
			return p.literal(k.t, text)
		}
	}
	return p.fail("what is %q?", word)
}

func (p *callParser) cast(v Vector, from, to schema.Type) Vector {
	k, ok := Cast(from, to)
	if !ok {
		v, _ := p.fail("no cast from %s to %s", from, to)
		return v
	}
	return p.run(k, to, []Vector{v})
}

func (p *callParser) call(name string, args []Vector, types []schema.Type) (Vector, schema.Type) {
	r := Builtin()
	s, err := r.Resolve(name, types)
	if err != nil {
		return p.fail("%v", err)
	}
	for i := range args {
		if !types[i].Equal(s.Args[i]) {
			args[i] = p.cast(args[i], types[i], s.Args[i])
		}
	}
	if p.err != nil {
		return p.fail("")
	}
	if s.Volatile {
		return p.fail("volatile")
	}
	return p.run(s.Kernel, s.Result, args), s.Result
}

// run computes a kernel in several encodings and compares.
func (p *callParser) run(k Kernel, result schema.Type, args []Vector) Vector {
	p.t.Helper()
	want, err := k(testContext, 1, args)
	if err != nil {
		v, _ := p.fail("%v", err)
		return v
	}
	if !want.Const {
		p.t.Errorf("%s: constants give a column", p.text)
	}
	text := render(result, want.Array)
	const n = 11
	for mode := range 4 {
		// Columns in which rows 1, 4, 7 are NULL; the first argument alone when
		// mode is odd; dictionary-coded when it is 2 or 3.
		in := make([]Vector, len(args))
		at := make([]int32, n)
		for i := range at {
			if i%3 == 1 {
				at[i] = -1
			}
		}
		for i, v := range args {
			if mode%2 == 1 && i > 0 || v.Array.DataType().ID() == arrow.NULL {
				in[i] = v
				continue
			}
			a := batch.Plain(v.Array)
			if mode >= 2 && a.DataType().ID() == arrow.STRING {
				var d batch.Dictionary
				d.Add("another")
				code := int32(0)
				if a.NullN() == 0 {
					x := batch.TextOf(a)
					code = d.Add(x.String(0))
				}
				a = batch.Gather(batch.NewDictionary([]int32{code}, batch.Validity(a), d.Data()), at)
			} else {
				a = batch.Gather(a, at)
			}
			in[i] = Vector{Array: a}
		}
		got, err := k(testContext, n, in)
		if err != nil {
			p.t.Errorf("%s: mode %d: %v", p.text, mode, err)
			continue
		}
		rows := got.Array
		if got.Const {
			rows = batch.Gather(rows, make([]int32, n))
		}
		if rows.Len() != n {
			p.t.Errorf("%s: mode %d: %d rows, not %d", p.text, mode, rows.Len(), n)
			continue
		}
		for _, i := range []int{0, 2, 3, 9} {
			if g := render(result, batch.Plain(batch.Gather(rows, []int32{int32(i)}))); g != text {
				p.t.Errorf("%s: mode %d: row %d is %s, as a constant it is %s", p.text, mode, i, g, text)
			}
		}
	}
	return want
}
