// Package optimizer rewrites plans: an ordered list of named rules, each a
// function of the plan. Rules keep what a plan means and its output columns.
// The list in Rules is the answer to "what happens to my query".
package optimizer

import (
	"fmt"

	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/schema"
	"github.com/skepdb/skep/sql/plan"
)

// Evaluator computes constant expressions (no columns in them).
type Evaluator interface {
	Eval(e plan.Expr) (schema.Datum, error)
	// Matches returns for which of some rows a condition is true. Its columns are
	// positions in columns, which have a row's values each.
	Matches(cond plan.Expr, types []schema.Type, rows [][]schema.Datum) ([]bool, error)
}

// Options are what rules may look at besides the plan.
type Options struct {
	// Evaluator folds constants; nil: they stay.
	Evaluator Evaluator
	// Volatile says whether a call may not be folded, moved or repeated. nil:
	// no function is.
	Volatile func(c *plan.Call) bool
	// BroadcastRows is the most rows of a join side that is copied to every
	// task of the other side; 0 = 200,000.
	BroadcastRows int64
}

func (o *Options) volatile(e plan.Expr) bool {
	found := false
	if o.Volatile != nil {
		plan.Walk(e, func(x plan.Expr) {
			c, ok := x.(*plan.Call)
			found = found || ok && o.Volatile(c)
		})
	}
	return found
}

// Rule is one rewriting.
type Rule struct {
	Name  string
	Apply func(n plan.Node, o *Options) (plan.Node, error)
}

// Rules returns the rules in the order they are applied. Those up to
// "distinct aggregates" keep the plan logical; "exchanges" makes it physical.
func Rules() []Rule {
	return []Rule{
		{"fold constants", foldConstants},
		{"push filters", pushFilters},
		{"drop empty inputs", dropEmpty},
		{"join keys and order", orderJoins},
		{"limits", pushLimits},
		{"prune columns", pruneColumns},
		{"merge projections", mergeProjections},
		{"key ranges", keyRanges},
		{"distinct aggregates", splitDistinct},
		{"exchanges", addExchanges},
		{"merge projections", mergeProjections},
		{"split unions", splitUnions},
		{"share stages", shareExchanges},
	}
}

// Optimize applies all rules.
func Optimize(n plan.Node, o Options) (plan.Node, error) {
	if o.BroadcastRows == 0 {
		o.BroadcastRows = 200_000
	}
	for _, r := range Rules() {
		var err error
		if n, err = r.Apply(n, &o); err != nil {
			if fault.ClassOf(err) == fault.User { // it is about the query, and says so
				return nil, err
			}
			return nil, fmt.Errorf("optimizer: %s: %w", r.Name, err)
		}
	}
	return n, nil
}
