package ast

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/skepdb/skep/schema"
)

// Print returns n as HiveQL text that parses to the same tree: every operator
// stands in parentheses, every name in backticks. n is a Statement, *Query or
// Expr.
func Print(n Node) string {
	var p printer
	switch n := n.(type) {
	case Statement:
		p.statement(n)
	case *Query:
		p.query(n)
	case Expr:
		p.expr(n)
	default:
		return fmt.Sprintf("%T", n)
	}
	return p.b.String()
}

type printer struct{ b strings.Builder }

func (p *printer) put(parts ...string) {
	for _, s := range parts {
		p.b.WriteString(s)
	}
}

// quoteIdent writes a name in backticks.
func quoteIdent(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// quoteString writes a string literal. A backslash before % and _ is not
// doubled: the lexer keeps it.
func quoteString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s) && (s[i+1] == '%' || s[i+1] == '_'):
			b.WriteByte('\\')
			b.WriteByte(s[i+1])
			i++
		case c == '\\' || c == '\'':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

func (p *printer) name(n Name) {
	for i, part := range n.Parts {
		if i > 0 {
			p.put(".")
		}
		p.put(quoteIdent(part.Name))
	}
}

func (p *printer) idents(ids []Ident) {
	for i, id := range ids {
		if i > 0 {
			p.put(", ")
		}
		p.put(quoteIdent(id.Name))
	}
}

func (p *printer) exprs(es []Expr) {
	for i, e := range es {
		if i > 0 {
			p.put(", ")
		}
		p.expr(e)
	}
}

func (p *printer) literal(d schema.Datum) {
	if d.Null {
		p.put("NULL")
		return
	}
	text := d.Text()
	switch d.Type.Kind {
	case schema.String:
		text = quoteString(d.S)
	case schema.TinyInt:
		text += "Y"
	case schema.SmallInt:
		text += "S"
	case schema.BigInt:
		text += "L"
	case schema.Decimal:
		text += "BD"
	case schema.Double:
		text += "D"
	case schema.Date:
		text = "DATE '" + text + "'"
	case schema.Timestamp:
		text = "TIMESTAMP '" + text + "'"
	case schema.TimestampTZ:
		text = "TIMESTAMPLOCALTZ '" + text + "'"
	}
	if strings.HasPrefix(text, "-") {
		text = "(" + text + ")"
	}
	p.put(text)
}

func not(b bool) string {
	if b {
		return "NOT "
	}
	return ""
}

func (p *printer) expr(e Expr) {
	switch e := e.(type) {
	case *Column:
		p.put(quoteIdent(e.Name))
	case *Field:
		p.base(e.Base)
		p.put(".", quoteIdent(e.Name))
	case *Index:
		p.base(e.Base)
		p.put("[")
		p.expr(e.Index)
		p.put("]")
	case *Star:
		for _, q := range e.Qualifier {
			p.put(quoteIdent(q.Name), ".")
		}
		p.put("*")
	case *Literal:
		p.literal(e.Value)
	case *Interval:
		p.put("INTERVAL (")
		p.expr(e.Value)
		p.put(") ", e.Unit)
	case *Unary:
		p.put("(", strings.ToUpper(e.Op), " ")
		p.expr(e.X)
		p.put(")")
	case *Binary:
		p.put("(")
		p.expr(e.L)
		p.put(" ", strings.ToUpper(e.Op), " ")
		p.expr(e.R)
		p.put(")")
	case *Between:
		p.put("(")
		p.expr(e.X)
		p.put(" ", not(e.Not), "BETWEEN ")
		p.expr(e.Low)
		p.put(" AND ")
		p.expr(e.High)
		p.put(")")
	case *In:
		p.put("(")
		p.expr(e.X)
		p.put(" ", not(e.Not), "IN (")
		if e.Query != nil {
			p.query(e.Query)
		} else {
			p.exprs(e.List)
		}
		p.put("))")
	case *Like:
		p.put("(")
		p.expr(e.X)
		p.put(" ", not(e.Not), strings.ToUpper(e.Op), " ")
		if e.Quantifier != "" {
			p.put(strings.ToUpper(e.Quantifier), " (")
		}
		p.exprs(e.Patterns)
		if e.Quantifier != "" {
			p.put(")")
		}
		p.put(")")
	case *Is:
		p.put("(")
		p.expr(e.X)
		p.put(" IS ", not(e.Not), strings.ToUpper(e.What), ")")
	case *Distinct:
		p.put("(")
		p.expr(e.L)
		p.put(" IS ", not(e.Not), "DISTINCT FROM ")
		p.expr(e.R)
		p.put(")")
	case *Case:
		p.put("CASE")
		if e.Operand != nil {
			p.put(" ")
			p.expr(e.Operand)
		}
		for _, w := range e.Whens {
			p.put(" WHEN ")
			p.expr(w.Cond)
			p.put(" THEN ")
			p.expr(w.Then)
		}
		if e.Else != nil {
			p.put(" ELSE ")
			p.expr(e.Else)
		}
		p.put(" END")
	case *Cast:
		p.put("CAST(")
		p.expr(e.X)
		p.put(" AS ", typeText(e.To.Type))
		if e.Format != "" {
			p.put(" FORMAT ", quoteString(e.Format))
		}
		p.put(")")
	case *Call:
		p.call(e)
	case *Subquery:
		p.put("(")
		p.query(e.Query)
		p.put(")")
	case *Exists:
		p.put("EXISTS (")
		p.query(e.Query)
		p.put(")")
	case *Quantified:
		p.put("(")
		p.expr(e.X)
		p.put(" ", e.Op, " ", map[bool]string{true: "ALL", false: "ANY"}[e.All], " (")
		p.query(e.Query)
		p.put("))")
	case *Tuple:
		p.put("(")
		p.exprs(e.Parts)
		p.put(")")
	case *Param:
		p.put("?")
	}
}

// base writes what stands before . or [: a number needs parentheses, for 1.x
// would be one.
func (p *printer) base(e Expr) {
	_, isLiteral := e.(*Literal)
	_, isInterval := e.(*Interval)
	if isLiteral || isInterval {
		p.put("(")
	}
	p.expr(e)
	if isLiteral || isInterval {
		p.put(")")
	}
}

// typeText writes a type so that the parser reads it back.
func typeText(t schema.Type) string {
	if t.Kind != schema.Struct || t.Nested == nil {
		if t.Nested != nil {
			parts := make([]string, len(t.Nested.Fields))
			for i, f := range t.Nested.Fields {
				parts[i] = typeText(f.Type)
			}
			name, _, _ := strings.Cut(t.String(), "<")
			return name + "<" + strings.Join(parts, ",") + ">"
		}
		return t.String()
	}
	parts := make([]string, len(t.Nested.Fields))
	for i, f := range t.Nested.Fields {
		parts[i] = quoteIdent(f.Name) + ":" + typeText(f.Type)
	}
	return "struct<" + strings.Join(parts, ",") + ">"
}

func (p *printer) call(e *Call) {
	p.put(quoteIdent(e.Name.Name), "(")
	if e.Distinct {
		p.put("DISTINCT ")
	}
	p.exprs(e.Args)
	if e.IgnoreNulls {
		p.put(" IGNORE NULLS")
	}
	p.put(")")
	if e.Within != nil {
		p.put(" WITHIN GROUP (ORDER BY ")
		p.order(e.Within)
		p.put(")")
	}
	if e.Filter != nil {
		p.put(" FILTER (WHERE ")
		p.expr(e.Filter)
		p.put(")")
	}
	if e.Over != nil {
		p.put(" OVER ")
		p.window(e.Over)
	}
}

func (p *printer) window(w *Window) {
	p.put("(")
	if w.Name != "" {
		p.put(quoteIdent(w.Name))
	}
	if w.PartitionBy != nil {
		p.put(" PARTITION BY ")
		p.exprs(w.PartitionBy)
	}
	if w.OrderBy != nil {
		p.put(" ORDER BY ")
		p.order(w.OrderBy)
	}
	if f := w.Frame; f != nil {
		p.put(" ", strings.ToUpper(f.Unit), " BETWEEN ")
		p.bound(f.Start)
		p.put(" AND ")
		p.bound(f.End)
	}
	p.put(")")
}

func (p *printer) bound(b Bound) {
	if b.N != nil {
		p.expr(b.N)
		p.put(" ")
	}
	p.put(strings.ToUpper(b.Kind))
}

func (p *printer) order(items []OrderItem) {
	for i, o := range items {
		if i > 0 {
			p.put(", ")
		}
		p.expr(o.X)
		if o.Desc {
			p.put(" DESC")
		}
		if o.NullsFirst != nil {
			p.put(map[bool]string{true: " NULLS FIRST", false: " NULLS LAST"}[*o.NullsFirst])
		}
	}
}

func (p *printer) query(q *Query) {
	for i, c := range q.With {
		if i == 0 {
			p.put("WITH ")
		} else {
			p.put(", ")
		}
		p.put(quoteIdent(c.Name.Name))
		if c.Columns != nil {
			p.put(" (")
			p.idents(c.Columns)
			p.put(")")
		}
		p.put(" AS (")
		p.query(c.Query)
		p.put(")")
	}
	if q.With != nil {
		p.put(" ")
	}
	p.body(q.Body)
	if q.OrderBy != nil {
		p.put(" ORDER BY ")
		p.order(q.OrderBy)
	}
	if q.ClusterBy != nil {
		p.put(" CLUSTER BY ")
		p.exprs(q.ClusterBy)
	}
	if q.DistributeBy != nil {
		p.put(" DISTRIBUTE BY ")
		p.exprs(q.DistributeBy)
	}
	if q.SortBy != nil {
		p.put(" SORT BY ")
		p.order(q.SortBy)
	}
	if q.Limit != nil {
		p.put(" LIMIT ")
		p.expr(q.Limit)
	}
	if q.Offset != nil {
		p.put(" OFFSET ")
		p.expr(q.Offset)
	}
}

func (p *printer) body(b Body) {
	switch b := b.(type) {
	case *Query:
		p.put("(")
		p.query(b)
		p.put(")")
	case *SetOp:
		p.body(b.L)
		p.put(" ", strings.ToUpper(b.Op))
		if b.All {
			p.put(" ALL")
		}
		p.put(" ")
		p.body(b.R)
	case *ValuesBody:
		p.put("VALUES ")
		for i, row := range b.Rows {
			if i > 0 {
				p.put(", ")
			}
			p.put("(")
			for k, e := range row {
				if k > 0 {
					p.put(", ")
				}
				p.expr(e)
				if i == 0 && k < len(b.Names) && b.Names[k] != "" {
					p.put(" AS ", quoteIdent(b.Names[k]))
				}
			}
			p.put(")")
		}
	case *Select:
		p.selectBody(b)
	}
}

func (p *printer) selectBody(s *Select) {
	p.put("SELECT ")
	if s.Distinct {
		p.put("DISTINCT ")
	}
	for i, it := range s.Items {
		if i > 0 {
			p.put(", ")
		}
		p.expr(it.X)
		switch {
		case it.Aliases != nil:
			p.put(" AS (")
			p.idents(it.Aliases)
			p.put(")")
		case it.Alias != "":
			p.put(" AS ", quoteIdent(it.Alias))
		}
	}
	if s.From != nil {
		if !sourceless(s.From) {
			p.put(" FROM ")
		}
		p.source(s.From)
	}
	if s.Where != nil {
		p.put(" WHERE ")
		p.expr(s.Where)
	}
	if s.GroupBy != nil || s.Sets != nil {
		p.put(" GROUP BY ")
		p.exprs(s.GroupBy)
		switch s.GroupingSet {
		case "rollup", "cube":
			p.put(" WITH ", strings.ToUpper(s.GroupingSet))
		case "sets":
			if s.GroupBy != nil {
				p.put(" ")
			}
			p.put("GROUPING SETS (")
			for i, set := range s.Sets {
				if i > 0 {
					p.put(", ")
				}
				p.put("(")
				p.exprs(set)
				p.put(")")
			}
			p.put(")")
		}
	}
	if s.Having != nil {
		p.put(" HAVING ")
		p.expr(s.Having)
	}
	for i := range s.Windows {
		w := s.Windows[i]
		p.put(map[bool]string{true: " WINDOW ", false: ", "}[i == 0], quoteIdent(w.Name), " AS ")
		w.Name = w.Base
		p.window(&w)
	}
	if s.Qualify != nil {
		p.put(" QUALIFY ")
		p.expr(s.Qualify)
	}
}

func (p *printer) sample(s *Sample) {
	n := strconv.FormatFloat(s.N, 'f', -1, 64)
	p.put(" TABLESAMPLE (")
	switch s.Kind {
	case "bucket":
		p.put("BUCKET ", n, " OUT OF ", strconv.FormatInt(s.Of, 10))
		if s.On != nil {
			p.put(" ON ")
			p.exprs(s.On)
		}
	case "percent":
		p.put(n, " PERCENT")
	case "rows":
		p.put(n, " ROWS")
	default:
		p.put(n, "b")
	}
	p.put(")")
}

func (p *printer) source(r TableRef) {
	alias := func(a string) {
		if a != "" {
			p.put(" AS ", quoteIdent(a))
		}
	}
	switch r := r.(type) {
	case *TableName:
		p.name(r.Name)
		if r.AsOf != nil {
			p.put(" FOR ", map[bool]string{true: "SYSTEM_VERSION", false: "SYSTEM_TIME"}[r.AsOf.Version], " AS OF ")
			p.expr(r.AsOf.X)
		}
		if r.Sample != nil {
			p.sample(r.Sample)
		}
		alias(r.Alias)
		if r.Columns != nil {
			p.put(" (")
			p.idents(r.Columns)
			p.put(")")
		}
	case *TableFunction:
		p.put(quoteIdent(r.Name.Name), "(ON ")
		p.source(r.Source)
		p.put(")")
		alias(r.Alias)
	case *Derived:
		p.put("(")
		p.query(r.Query)
		p.put(")")
		alias(r.Alias)
		if r.Columns != nil {
			p.put(" (")
			p.idents(r.Columns)
			p.put(")")
		}
	case *Join:
		p.source(r.L)
		p.put(" ", strings.ToUpper(r.Kind), " JOIN ")
		if j, ok := r.R.(*Join); ok {
			p.put("(")
			p.source(j)
			p.put(")")
		} else {
			p.source(r.R)
		}
		if r.On != nil {
			p.put(" ON ")
			p.expr(r.On)
		}
		if r.Using != nil {
			p.put(" USING (")
			p.idents(r.Using)
			p.put(")")
		}
	case *LateralView:
		if r.Source != nil {
			p.source(r.Source)
		}
		p.put(" LATERAL VIEW ")
		if r.Outer {
			p.put("OUTER ")
		}
		p.call(r.Call)
		if r.Alias != "" {
			p.put(" ", quoteIdent(r.Alias))
		}
		if r.Columns != nil {
			p.put(" AS ")
			p.idents(r.Columns)
		}
	}
}

// sourceless reports whether r is lateral views with no source below them.
func sourceless(r TableRef) bool {
	for {
		v, ok := r.(*LateralView)
		if !ok {
			return r == nil
		}
		r = v.Source
	}
}
