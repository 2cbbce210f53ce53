package function

import (
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
)

// addJSON registers get_json_object and json_read.
func addJSON(r *Registry) {
	r.add("get_json_object", func(args []schema.Type) (Signature, error) {
		want, err := shaped("tt", args)
		if err != nil {
			return Signature{}, err
		}
		var kept atomic.Pointer[jsonPath]
		return Signature{Args: want, Result: schema.StringType,
			Kernel: eachText(schema.StringType, func(_ *Context, args []Vector) (func([]byte, int) ([]byte, bool), error) {
				s, p := textsOf(args[0]), textsOf(args[1])
				return func(dst []byte, i int) ([]byte, bool) {
					path := kept.Load()
					if path == nil || path.text != string(p.at(i)) {
						path = compileJSONPath(string(p.at(i)))
						kept.Store(path)
					}
					return path.extract(dst, string(s.at(i)))
				}, nil
			})}, nil
	})
	r.addConstant("json_read", func(args []schema.Type, constants []*schema.Datum) (Signature, error) {
		if err := arity(args, 2, 2); err != nil {
			return Signature{}, err
		}
		if !args[0].IsText() && args[0].Kind != schema.Void || constants[1] == nil || constants[1].Null || !args[1].IsText() {
			return Signature{}, fault.Userf("it takes a text and the constant name of a type")
		}
		t, err := schema.ParseType(constants[1].S)
		if err != nil {
			return Signature{}, err
		}
		return Signature{Args: []schema.Type{schema.StringType, args[1]}, Result: t,
			Kernel: func(_ *Context, n int, args []Vector) (Vector, error) {
				valid, null := validity(n, args[:1])
				if null {
					return nullOf(t), nil
				}
				x := textsOf(args[0])
				a := schema.NewPlainAppender(t, n)
				for i := range n {
					if valid != nil && valid[i>>3]>>(uint(i)&7)&1 == 0 {
						a.AppendNull()
						continue
					}
					v, ok := parseJSON(string(x.at(i)))
					d := schema.NullOf(t)
					if ok {
						d = jsonDatum(t, &v)
					}
					a.AppendDatum(d)
				}
				return Vector{Array: a.Finish()}, nil
			}}, nil
	})
}

// jsonDatum reads a JSON value as one of a type; what doesn't fit is NULL.
func jsonDatum(t schema.Type, v *jsonValue) schema.Datum {
	d := schema.Datum{Type: t}
	if v.kind == jsonNull {
		return schema.NullOf(t)
	}
	switch t.Kind {
	case schema.Array:
		if v.kind != jsonArray {
			return schema.NullOf(t)
		}
		for i := range v.items {
			d.List = append(d.List, jsonDatum(t.Part(0), &v.items[i]))
		}
	case schema.Map:
		if v.kind != jsonObject {
			return schema.NullOf(t)
		}
		for i, name := range v.names {
			key := jsonDatum(t.Part(0), &jsonValue{kind: jsonText, text: name})
			if !key.Null {
				d.List = append(d.List, key, jsonDatum(t.Part(1), &v.items[i]))
			}
		}
	case schema.Struct:
		if v.kind != jsonObject {
			return schema.NullOf(t)
		}
		for _, f := range t.Nested.Fields {
			item := schema.NullOf(f.Type)
			for i, name := range v.names {
				if strings.EqualFold(name, f.Name) {
					item = jsonDatum(f.Type, &v.items[i])
				}
			}
			d.List = append(d.List, item)
		}
	case schema.Union:
		return schema.NullOf(t)
	default:
		if v.kind == jsonArray || v.kind == jsonObject {
			if !t.IsText() {
				return schema.NullOf(t)
			}
		}
		d, _ = schema.ParseText(t, v.appendText(nil))
	}
	return d
}

// jsonPath is a path of get_json_object: $.name[0][*].name. The quirks are Hive's: in
// an array a name takes that member of every object, arrays found so are flattened, a [*]
// that finds one value gives the value alone.
type jsonPath struct {
	text  string
	ok    bool
	root  bool // the text must be an array: the path begins with [
	any   bool // $ alone
	steps []jsonStep
}

type jsonStep struct {
	key     string
	skipKey bool
	indexes []int // -1 is *
	ok      bool
}

func compileJSONPath(text string) *jsonPath {
	p := &jsonPath{text: text}
	if text == "" || text[0] != '$' {
		return p
	}
	p.any = text == "$"
	start := 1
	if len(text) > 1 {
		switch text[1] {
		case '[':
			start, p.root = 0, true
		case '.':
			p.root = len(text) > 2 && text[2] == '['
		default:
			return p
		}
	}
	p.ok = true
	for i, part := range strings.Split(text, ".") {
		if i < start {
			continue
		}
		s := jsonStep{skipKey: i == start && p.root, ok: true}
		if !s.skipKey {
			end := 0
			for end < len(part) && (isLetterOrDigit(part[end]) || strings.IndexByte("_-: \t\r\n\f\v", part[end]) >= 0) {
				end++
			}
			s.key, s.ok = part[:end], end > 0
		}
		for rest := part; ; {
			open := strings.IndexByte(rest, '[')
			if open < 0 {
				break
			}
			rest = rest[open+1:]
			shut := strings.IndexByte(rest, ']')
			if shut < 0 {
				break
			}
			if rest[:shut] == "*" {
				s.indexes = append(s.indexes, -1)
			} else if n, err := strconv.Atoi(rest[:shut]); err == nil && n >= 0 && rest[0] != '+' {
				s.indexes = append(s.indexes, n)
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

func (p *jsonPath) extract(dst []byte, s string) ([]byte, bool) {
	if !p.ok || s == "" {
		return dst, false
	}
	whole, ok := parseJSON(s)
	if !ok || !p.any && p.root != (whole.kind == jsonArray) || whole.kind != jsonArray && whole.kind != jsonObject {
		return dst, false
	}
	v := &whole
	for _, step := range p.steps {
		if v == nil || v.kind == jsonNull || !step.ok {
			return dst, false
		}
		if !step.skipKey {
			v = v.under(step.key)
		}
		if len(step.indexes) > 0 {
			v = v.indexed(step.indexes)
		}
	}
	if v == nil || v.kind == jsonNull {
		return dst, false
	}
	return v.appendText(dst), true
}

// under returns an object's member, or those of an array's objects.
func (v *jsonValue) under(key string) *jsonValue {
	switch v.kind {
	case jsonObject:
		return v.member(key)
	case jsonArray:
		out := &jsonValue{kind: jsonArray}
		for i := range v.items {
			m := v.items[i].member(key)
			switch {
			case m == nil || m.kind == jsonNull:
			case m.kind == jsonArray:
				out.items = append(out.items, m.items...)
			default:
				out.items = append(out.items, *m)
			}
		}
		if len(out.items) > 0 {
			return out
		}
	}
	return nil
}

func (v *jsonValue) indexed(indexes []int) *jsonValue {
	if v == nil {
		return nil
	}
	list := []jsonValue{*v}
	for _, k := range indexes {
		var next []jsonValue
		for _, a := range list {
			if a.kind != jsonArray {
				continue
			}
			if k < 0 {
				next = append(next, a.items...)
				continue
			}
			if k >= len(a.items) {
				return nil
			}
			next = append(next, a.items[k])
		}
		list = next
	}
	switch len(list) {
	case 0:
		return nil
	case 1:
		return &list[0]
	}
	return &jsonValue{kind: jsonArray, items: list}
}
