package xpath

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Expr is a compiled expression. It is safe for concurrent use.
type Expr struct{ eval evaluator }

// context is where an expression is evaluated.
type context struct {
	node           *Node
	position, size int
	steps          *int // how many nodes may still be looked at
}

type evaluator func(c context) Value

// Compile reads an expression.
func Compile(text string) (*Expr, error) {
	p := &parser{text: text}
	if err := p.lex(); err != nil {
		return nil, err
	}
	e, err := p.or()
	if err == nil && p.at < len(p.tokens) {
		err = p.fail("nothing after the expression")
	}
	if err != nil {
		return nil, err
	}
	return &Expr{e}, nil
}

// maxSteps bounds an evaluation: predicates in predicates take time exponential in their depth.
const maxSteps = 10_000_000

// Evaluate evaluates the expression at the root of a document. It fails when that would take too
// long.
func (e *Expr) Evaluate(root *Node) (Value, error) {
	steps := maxSteps
	v := e.eval(context{root, 1, 1, &steps})
	if steps < 0 {
		return Value{}, fmt.Errorf("the expression looks at more than %d nodes", maxSteps)
	}
	return v, nil
}

type tokenKind uint8

const (
	operator tokenKind = iota // also brackets, names of operators
	name
	number
	literal
)

type token struct {
	kind tokenKind
	text string
}

type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
}

func (p *parser) fail(want string) error {
	got := "the end"
	if p.at < len(p.tokens) {
		got = strconv.Quote(p.tokens[p.at].text)
	}
	return fmt.Errorf("XPath %q: expected %s, not %s", p.text, want, got)
}

func (p *parser) lex() error {
	s := p.text
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			i++
		case c == '"' || c == '\'':
			end := strings.IndexByte(s[i+1:], c)
			if end < 0 {
				return fmt.Errorf("XPath %q: an open quote", s)
			}
			p.tokens = append(p.tokens, token{literal, s[i+1 : i+1+end]})
			i += end + 2
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			j := i
			for j < len(s) && (s[j] >= '0' && s[j] <= '9' || s[j] == '.') {
				j++
			}
			p.tokens = append(p.tokens, token{number, s[i:j]})
			i = j
		case i+1 < len(s) && strings.Contains("// :: .. != <= >=", s[i:i+2]) && s[i:i+2] != "  " && s[i+1] != ' ' && c != ' ':
			p.tokens = append(p.tokens, token{operator, s[i : i+2]})
			i += 2
		case strings.IndexByte("()[]@,/|+-=<>*.", c) >= 0:
			p.tokens = append(p.tokens, token{operator, s[i : i+1]})
			i++
		default:
			j := i
			for j < len(s) {
				r, size := utf8.DecodeRuneInString(s[j:])
				if !unicode.IsLetter(r) && r != '_' && (j == i || !unicode.IsDigit(r) && !unicode.IsMark(r) && r != '-' && r != '.') &&
					(r != ':' || j == i || j+1 < len(s) && s[j+1] == ':') {
					break
				}
				j += size
			}
			if j == i {
				return fmt.Errorf("XPath %q: %q has no meaning", s, s[i:i+1])
			}
			p.tokens = append(p.tokens, token{name, s[i:j]})
			i = j
		}
	}
	return nil
}

func (p *parser) peek(kind tokenKind, text string) bool {
	return p.at < len(p.tokens) && p.tokens[p.at].kind == kind && p.tokens[p.at].text == text
}

func (p *parser) accept(kind tokenKind, text string) bool {
	if p.peek(kind, text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.accept(operator, text) {
		return p.fail(strconv.Quote(text))
	}
	return nil
}

// binary reads operands between operators of one precedence.
func (p *parser) binary(next func() (evaluator, error), ops map[string]func(a, b evaluator) evaluator) (evaluator, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, fmt.Errorf("XPath %q: nested too deeply", p.text)
	}
	defer func() { p.depth-- }()
	a, err := next()
	for err == nil && p.at < len(p.tokens) {
		t := p.tokens[p.at]
		f, ok := ops[t.text]
		if !ok || t.kind != operator && t.kind != name {
			break
		}
		p.at++
		var b evaluator
		if b, err = next(); err == nil {
			a = f(a, b)
		}
	}
	return a, err
}

func (p *parser) or() (evaluator, error) {
	return p.binary(p.and, map[string]func(a, b evaluator) evaluator{"or": func(a, b evaluator) evaluator {
		return func(c context) Value { return boolean(a(c).ToBool() || b(c).ToBool()) }
	}})
}

func (p *parser) and() (evaluator, error) {
	return p.binary(p.equality, map[string]func(a, b evaluator) evaluator{"and": func(a, b evaluator) evaluator {
		return func(c context) Value { return boolean(a(c).ToBool() && b(c).ToBool()) }
	}})
}

func (p *parser) equality() (evaluator, error) {
	return p.binary(p.relational, map[string]func(a, b evaluator) evaluator{"=": comparing("="), "!=": comparing("!=")})
}

func (p *parser) relational() (evaluator, error) {
	return p.binary(p.additive, map[string]func(a, b evaluator) evaluator{
		"<": comparing("<"), "<=": comparing("<="), ">": comparing(">"), ">=": comparing(">=")})
}

func (p *parser) additive() (evaluator, error) {
	return p.binary(p.multiplicative, map[string]func(a, b evaluator) evaluator{
		"+": arithmetic(func(x, y float64) float64 { return x + y }), "-": arithmetic(func(x, y float64) float64 { return x - y })})
}

func (p *parser) multiplicative() (evaluator, error) {
	return p.binary(p.unary, map[string]func(a, b evaluator) evaluator{"*": arithmetic(func(x, y float64) float64 { return x * y }),
		"div": arithmetic(func(x, y float64) float64 { return x / y }), "mod": arithmetic(modulo)})
}

func (p *parser) unary() (evaluator, error) {
	negative := false
	for p.accept(operator, "-") {
		negative = !negative
	}
	e, err := p.binary(p.path, map[string]func(a, b evaluator) evaluator{"|": unite})
	if err != nil || !negative {
		return e, err
	}
	return func(c context) Value { return Value{Type: Number, Number: -e(c).ToNumber()} }, nil
}

// path reads a location path or a filter expression, perhaps with a path after it.
func (p *parser) path() (evaluator, error) {
	if p.at == len(p.tokens) {
		return nil, p.fail("an expression")
	}
	var start evaluator
	t := p.tokens[p.at]
	call := t.kind == name && p.at+1 < len(p.tokens) && p.tokens[p.at+1] == (token{operator, "("}) && !isNodeType(t.text)
	switch {
	case t.kind == number:
		p.at++
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, fmt.Errorf("XPath %q: %q is no number", p.text, t.text)
		}
		start = func(context) Value { return Value{Type: Number, Number: f} }
	case t.kind == literal:
		p.at++
		start = func(context) Value { return Value{Type: String, String: t.text} }
	case t == (token{operator, "("}):
		p.at++
		e, err := p.or()
		if err == nil {
			err = p.expect(")")
		}
		if err != nil {
			return nil, err
		}
		start = e
	case call:
		e, err := p.call()
		if err != nil {
			return nil, err
		}
		start = e
	case t == (token{operator, "/"}):
		p.at++
		root := func(c context) Value {
			n := c.node
			for n.Parent != nil {
				n = n.Parent
			}
			return Value{Nodes: []*Node{n}}
		}
		if !p.stepFollows() {
			return root, nil
		}
		return p.steps(root)
	case t == (token{operator, "//"}):
		return p.steps(func(c context) Value {
			n := c.node
			for n.Parent != nil {
				n = n.Parent
			}
			return Value{Nodes: []*Node{n}}
		})
	default:
		return p.steps(func(c context) Value { return Value{Nodes: []*Node{c.node}} })
	}
	for p.peek(operator, "[") { // a filter: positions count in document order
		pred, err := p.predicate()
		if err != nil {
			return nil, err
		}
		inner := start
		start = func(c context) Value { return Value{Nodes: filter(c, inner(c).Nodes, pred)} }
	}
	if p.accept(operator, "/") {
		return p.steps(start)
	}
	if p.peek(operator, "//") {
		return p.steps(start)
	}
	return start, nil
}

func (p *parser) stepFollows() bool {
	if p.at == len(p.tokens) {
		return false
	}
	t := p.tokens[p.at]
	return t.kind == name || t.kind == operator && strings.Contains("@ . .. *", t.text)
}

func isNodeType(s string) bool {
	return s == "text" || s == "node" || s == "comment" || s == "processing-instruction"
}

// steps reads step ('/' step)*; a leading // was not consumed, a leading / was.
func (p *parser) steps(start evaluator) (evaluator, error) {
	for {
		if p.accept(operator, "//") {
			start = stepFrom(start, descendantsOrSelf, func(*Node) bool { return true }, nil)
		}
		axis, test, err := p.step()
		if err != nil {
			return nil, err
		}
		var preds []evaluator
		for p.peek(operator, "[") {
			pred, err := p.predicate()
			if err != nil {
				return nil, err
			}
			preds = append(preds, pred)
		}
		start = stepFrom(start, axis, test, preds)
		if p.peek(operator, "//") {
			continue
		}
		if !p.accept(operator, "/") {
			return start, nil
		}
	}
}

func (p *parser) predicate() (evaluator, error) {
	p.at++ // [
	e, err := p.or()
	if err == nil {
		err = p.expect("]")
	}
	return e, err
}

// step reads axis and node test.
func (p *parser) step() (axis func(*Node) []*Node, test func(*Node) bool, err error) {
	if p.accept(operator, ".") {
		return self, func(*Node) bool { return true }, nil
	}
	if p.accept(operator, "..") {
		return parent, func(*Node) bool { return true }, nil
	}
	axis = children
	principal := Element
	if p.accept(operator, "@") {
		axis, principal = attributes, Attribute
	} else if p.at+1 < len(p.tokens) && p.tokens[p.at].kind == name && p.tokens[p.at+1] == (token{operator, "::"}) {
		word := p.tokens[p.at].text
		var ok bool
		if axis, ok = axes[word]; !ok {
			return nil, nil, p.fail("an axis")
		}
		if word == "attribute" {
			principal = Attribute
		}
		p.at += 2
	}
	if p.accept(operator, "*") {
		return axis, func(n *Node) bool { return n.Kind == principal }, nil
	}
	if p.at == len(p.tokens) || p.tokens[p.at].kind != name {
		return nil, nil, p.fail("a name, *, text() or node()")
	}
	word := p.tokens[p.at].text
	p.at++
	if !isNodeType(word) || !p.accept(operator, "(") {
		if prefix, ok := strings.CutSuffix(word, ":"); ok && p.accept(operator, "*") {
			return axis, func(n *Node) bool { return n.Kind == principal && strings.HasPrefix(n.Name, prefix+":") }, nil
		}
		return axis, func(n *Node) bool { return n.Kind == principal && n.Name == word }, nil
	}
	target := ""
	if p.at < len(p.tokens) && p.tokens[p.at].kind == literal {
		target = p.tokens[p.at].text
		p.at++
	}
	if err := p.expect(")"); err != nil {
		return nil, nil, err
	}
	return axis, func(n *Node) bool {
		switch word {
		case "text":
			return n.Kind == Text
		case "comment":
			return n.Kind == Comment
		case "processing-instruction":
			return n.Kind == Instruction && (target == "" || n.Name == target)
		}
		return true
	}, nil
}

// call reads name(arguments).
func (p *parser) call() (evaluator, error) {
	word := p.tokens[p.at].text
	p.at += 2
	var args []evaluator
	for !p.accept(operator, ")") {
		if len(args) > 0 {
			if err := p.expect(","); err != nil {
				return nil, err
			}
		}
		e, err := p.or()
		if err != nil {
			return nil, err
		}
		args = append(args, e)
	}
	f, ok := functions[word]
	if !ok {
		return nil, fmt.Errorf("XPath %q: there is no function %s", p.text, word)
	}
	if len(args) < f.least || f.most >= 0 && len(args) > f.most {
		return nil, fmt.Errorf("XPath %q: %s doesn't take %d arguments", p.text, word, len(args))
	}
	return func(c context) Value {
		values := make([]Value, len(args))
		for i, a := range args {
			values[i] = a(c)
		}
		return f.call(c, values)
	}, nil
}
