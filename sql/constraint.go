package sql

import (
	"fmt"
	"slices"
	"strings"

	"github.com/skepdb/skep/catalog"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/internal/nearest"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/ast"
	"github.com/skepdb/skep/sql/plan"
)

// constraints translates the constraints of a table's definition. Enforced NOT
// NULLs also mark their columns.
func (c *compiler) constraints(t *catalog.Table, in []ast.Constraint) error {
	for _, k := range in {
		if err := c.addConstraint(t, k); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) addConstraint(t *catalog.Table, k ast.Constraint) error {
	out := catalog.Constraint{Kind: catalog.ConstraintKind(k.Kind), Name: strings.ToLower(k.Name), Text: k.Text,
		Enforced: !k.Disabled, Validated: k.Validate, Rely: k.Rely}
	all := t.AllColumns()
	for _, id := range k.Columns {
		i := all.Index(id.Name)
		if i < 0 {
			return userError(id.Pos, fault.StateUnknownCol, nearest.Hint(id.Name, columnNames(all)), "the constraint names column %s, which the table does not have", id.Name)
		}
		out.Columns = append(out.Columns, all[i].Name)
	}
	for i, name := range out.Columns {
		if slices.Contains(out.Columns[:i], name) {
			return userError(k.Pos, fault.StateSyntax, "", "the constraint names column %s twice", name)
		}
	}
	switch out.Kind {
	case catalog.PrimaryKey:
		for _, old := range t.Constraints {
			if old.Kind == catalog.PrimaryKey {
				return userError(k.Pos, fault.StateSyntax, "", "table %s has a primary key already", t.TableName)
			}
		}
		if out.Enforced {
			for _, name := range out.Columns {
				if i := t.Columns.Index(name); i >= 0 {
					t.Columns[i].NotNull = true
				}
			}
		}
	case catalog.ForeignKey:
		database, name, err := c.analyzer().Qualify(k.RefTable)
		if err != nil {
			return err
		}
		out.RefTable = database + "." + name
		for _, id := range k.RefColumns {
			out.RefColumns = append(out.RefColumns, strings.ToLower(id.Name))
		}
		if len(out.RefColumns) != 0 && len(out.RefColumns) != len(out.Columns) {
			return userError(k.Pos, fault.StateSyntax, "", "the foreign key has %d columns, but refers to %d", len(out.Columns), len(out.RefColumns))
		}
		// Foreign keys inform; Hive refuses an enforced one.
		if !k.Disabled && k.Validate {
			return unsupportedAt(k.Pos, "foreign keys that are enforced")
		}
		out.Enforced = false
	case catalog.Unique:
		out.Enforced = false
	case catalog.NotNull:
		if i := t.Columns.Index(out.Columns[0]); i >= 0 && out.Enforced {
			t.Columns[i].NotNull = true
		}
	case catalog.Default:
		i := t.Columns.Index(out.Columns[0])
		if i < 0 {
			return userError(k.Pos, fault.StateSyntax, "", "partition column %s can't have a default", out.Columns[0])
		}
		e, err := c.analyzer().Constant(k.X)
		if err != nil {
			return err
		}
		if from, to := e.Type(), t.Columns[i].Type; !from.Equal(to) && from.Kind != schema.Void && !defaultFits(from, to) {
			return userError(k.Pos, fault.StateSyntax, "", "the default of column %s is %s, the column is %s", out.Columns[0], from, to)
		}
	case catalog.Check:
		if _, err := c.analyzer().Condition(k.X, t.Columns, "CHECK"); err != nil {
			return err
		}
	}
	for _, old := range t.Constraints {
		if out.Name != "" && old.Name == out.Name {
			return userError(k.Pos, fault.StateSyntax, "", "there is a constraint %s already", out.Name)
		}
	}
	if out.Name == "" {
		for n := 1; ; n++ {
			out.Name = fmt.Sprintf("%s_%s_%d", t.TableName, strings.ReplaceAll(k.Kind, " ", "_"), n)
			if !slices.ContainsFunc(t.Constraints, func(o catalog.Constraint) bool { return o.Name == out.Name }) {
				break
			}
		}
	}
	t.Constraints = append(t.Constraints, out)
	return nil
}

// defaultFits reports whether a default of one type can be one of another.
func defaultFits(from, to schema.Type) bool {
	text := func(t schema.Type) bool {
		return t.Kind == schema.String || t.Kind == schema.Char || t.Kind == schema.Varchar
	}
	number := func(t schema.Type) bool {
		return t.IsInteger() || t.Kind == schema.Float || t.Kind == schema.Double || t.Kind == schema.Decimal
	}
	time := func(t schema.Type) bool {
		return t.Kind == schema.Date || t.Kind == schema.Timestamp || t.Kind == schema.TimestampTZ
	}
	return text(from) && text(to) || number(from) && number(to) || time(from) && time(to)
}

// expression parses the text of a constraint.
func (c *compiler) expression(text string) (ast.Expr, error) {
	q, err := parseQuery("SELECT " + text)
	if err != nil {
		return nil, err
	}
	sel, ok := q.Body.(*ast.Select)
	if !ok || len(sel.Items) != 1 {
		return nil, fault.Bugf("constraint %q is no expression", text)
	}
	return sel.Items[0].X, nil
}

// defaults are the expressions of columns that have one, by name.
func (c *compiler) defaults(t *catalog.Table) (map[string]ast.Expr, error) {
	var out map[string]ast.Expr
	for _, k := range t.Constraints {
		if k.Kind != catalog.Default || !k.Enforced {
			continue
		}
		x, err := c.expression(k.Text)
		if err != nil {
			return nil, fmt.Errorf("default of column %s: %w", k.Columns[0], err)
		}
		if out == nil {
			out = map[string]ast.Expr{}
		}
		out[k.Columns[0]] = x
	}
	return out, nil
}

// checked makes rows that break an enforced CHECK of a table fail.
func (c *compiler) checked(t *catalog.Table, n plan.Node) (plan.Node, error) {
	var conds []plan.Expr
	for _, k := range t.Constraints {
		if k.Kind != catalog.Check || !k.Enforced {
			continue
		}
		x, err := c.expression(k.Text)
		if err != nil {
			return nil, fmt.Errorf("constraint %s: %w", k.Name, err)
		}
		cond, err := c.analyzer().Condition(x, t.AllColumns(), "CHECK")
		if err != nil {
			return nil, fmt.Errorf("constraint %s: %w", k.Name, err)
		}
		// NULL passes: only false breaks it.
		cond = &plan.Case{Whens: []plan.When{{Cond: cond, Then: yes}, {Cond: &plan.Call{Name: "isnull", Args: []plan.Expr{cond}, T: schema.BooleanType}, Then: yes}}, Else: no, T: schema.BooleanType}
		conds = append(conds, &plan.Call{Name: "enforce_constraint", Args: []plan.Expr{cond}, T: schema.BooleanType})
	}
	for _, cond := range conds {
		n = &plan.Filter{Input: n, Cond: cond}
	}
	return n, nil
}

var (
	yes = &plan.Literal{Value: schema.Datum{Type: schema.BooleanType, I: 1}}
	no  = &plan.Literal{Value: schema.Datum{Type: schema.BooleanType}}
)
