package schema

import (
	"strconv"
	"strings"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
)

// ParseType reads a type as SQL writes it, in any case and with blanks:
// "decimal(10,2)", "double precision", "array<int>", "struct<a:int,b:string>".
// It is the inverse of Type.String. Errors are the user's and name the nearest
// type.
func ParseType(text string) (Type, error) {
	p := typeParser{text: text}
	t, err := p.parse(0)
	if err == nil {
		if p.skip(); p.at < len(text) {
			err = p.fail("nothing after the type")
		}
	}
	if err != nil {
		return Type{}, err
	}
	return t, nil
}

// TypeNames returns the words that ParseType knows, for suggestions.
func TypeNames() []string {
	return []string{"boolean", "tinyint", "smallint", "int", "integer", "bigint", "float", "real", "double", "decimal", "numeric", "dec",
		"string", "char", "varchar", "binary", "date", "timestamp", "timestamp with local time zone", "array", "map", "struct", "uniontype"}
}

const maxTypeDepth = 100

type typeParser struct {
	text string
	at   int
}

func (p *typeParser) fail(want string) error {
	return &fault.Error{Class: fault.User, SQLState: fault.StateSyntax,
		Message: "type " + strconv.Quote(p.text) + ": expected " + want + " at position " + strconv.Itoa(p.at+1)}
}

func (p *typeParser) skip() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// word reads a name of letters, digits and underscores, in lower case.
func (p *typeParser) word() string {
	p.skip()
	start := p.at
	for p.at < len(p.text) {
		c := p.text[p.at]
		if c != '_' && c < 0x80 && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			break
		}
		p.at++
	}
	return strings.ToLower(p.text[start:p.at])
}

// take consumes c if it comes next.
func (p *typeParser) take(c byte) bool {
	p.skip()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// takeWords consumes the words if all of them come next.
func (p *typeParser) takeWords(words ...string) bool {
	start := p.at
	for _, w := range words {
		if p.word() != w {
			p.at = start
			return false
		}
	}
	return true
}

func (p *typeParser) parse(depth int) (Type, error) {
	if depth > maxTypeDepth {
		return Type{}, p.fail("at most " + strconv.Itoa(maxTypeDepth) + " levels of nesting")
	}
	start := p.at
	switch w := p.word(); w {
	case "void":
		return VoidType, nil
	case "boolean":
		return BooleanType, nil
	case "tinyint":
		return TinyIntType, nil
	case "smallint":
		return SmallIntType, nil
	case "int", "integer":
		return IntType, nil
	case "bigint":
		return BigIntType, nil
	case "float", "real":
		return FloatType, nil
	case "double":
		p.takeWords("precision")
		return DoubleType, nil
	case "decimal", "numeric", "dec":
		return p.decimal()
	case "string":
		return StringType, nil
	case "char":
		n, err := p.length("char", 255)
		return CharType(n), err
	case "varchar":
		n, err := p.length("varchar", 65535)
		return VarcharType(n), err
	case "binary":
		return BinaryType, nil
	case "date":
		return DateType, nil
	case "timestamp":
		if p.takeWords("with", "local", "time", "zone") {
			return TimestampTZType, nil
		}
		return TimestampType, nil
	case "timestamplocaltz":
		return TimestampTZType, nil
	case "interval_year_month":
		return Type{Kind: IntervalYearMonth}, nil
	case "interval_day_time":
		return Type{Kind: IntervalDayTime}, nil
	case "array":
		return p.nested(Array, 1, 1, depth)
	case "map":
		return p.nested(Map, 2, 2, depth)
	case "struct":
		return p.nested(Struct, 1, 1<<16, depth)
	case "uniontype":
		return p.nested(Union, 1, 1<<16, depth)
	case "":
		return Type{}, p.fail("a type")
	default:
		p.at = start
		return Type{}, &fault.Error{Class: fault.User, SQLState: fault.StateSyntax,
			Message: "unknown type " + strconv.Quote(w), Hint: nearest.Hint(w, TypeNames())}
	}
}

func (p *typeParser) number(what string, least, most int) (int, error) {
	w := p.word()
	n, err := strconv.Atoi(w)
	if err != nil || n < least || n > most {
		p.at -= len(w)
		return 0, p.fail(what + " from " + strconv.Itoa(least) + " to " + strconv.Itoa(most))
	}
	return n, nil
}

func (p *typeParser) decimal() (Type, error) {
	if !p.take('(') {
		return DecimalType(10, 0), nil
	}
	precision, err := p.number("a precision", 1, MaxPrecision)
	if err != nil {
		return Type{}, err
	}
	scale := 0
	if p.take(',') {
		if scale, err = p.number("a scale", 0, precision); err != nil {
			return Type{}, err
		}
	}
	if !p.take(')') {
		return Type{}, p.fail(`")"`)
	}
	return DecimalType(uint8(precision), uint8(scale)), nil
}

func (p *typeParser) length(name string, most int) (uint16, error) {
	if !p.take('(') {
		return 0, p.fail(`"(" and the length of ` + name)
	}
	n, err := p.number("a length", 1, most)
	if err != nil {
		return 0, err
	}
	if !p.take(')') {
		return 0, p.fail(`")"`)
	}
	return uint16(n), nil
}

func (p *typeParser) nested(k Kind, least, most, depth int) (Type, error) {
	if !p.take('<') {
		return Type{}, p.fail(`"<"`)
	}
	n := &Nested{}
	for {
		var f Field
		if k == Struct {
			if f.Name = p.word(); f.Name == "" {
				return Type{}, p.fail("a field name")
			}
			if !p.take(':') {
				return Type{}, p.fail(`":"`)
			}
		}
		var err error
		if f.Type, err = p.parse(depth + 1); err != nil {
			return Type{}, err
		}
		n.Fields = append(n.Fields, f)
		if len(n.Fields) < most && p.take(',') {
			continue
		}
		if len(n.Fields) < least {
			return Type{}, p.fail(`","`)
		}
		if !p.take('>') {
			return Type{}, p.fail(`">"`)
		}
		return Type{Kind: k, Nested: n}, nil
	}
}
