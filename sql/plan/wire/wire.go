// Package wire makes the plans of SQL stages known to package coding, so that a
// fragment can travel to the worker that runs it. The shapes of the types say the
// rest; its test proves that no kind of node or expression is left out.
package wire

import (
	"github.com/skepdb/skep/internal/coding"
	"github.com/skepdb/skep/sql/plan"
)

// Register adds the kinds of nodes and expressions, and the work of SQL stages.
func Register(r *coding.Registry) {
	r.Add("plan.Fragment", &plan.Fragment{})

	r.Add("plan.Scan", &plan.Scan{})
	r.Add("plan.Values", &plan.Values{})
	r.Add("plan.Filter", &plan.Filter{})
	r.Add("plan.Project", &plan.Project{})
	r.Add("plan.Aggregate", &plan.Aggregate{})
	r.Add("plan.Join", &plan.Join{})
	r.Add("plan.Union", &plan.Union{})
	r.Add("plan.Expand", &plan.Expand{})
	r.Add("plan.Generate", &plan.Generate{})
	r.Add("plan.Window", &plan.Window{})
	r.Add("plan.Sort", &plan.Sort{})
	r.Add("plan.Limit", &plan.Limit{})
	r.Add("plan.Exchange", &plan.Exchange{})
	r.Add("plan.Write", &plan.Write{})
	r.Add("plan.Input", &plan.Input{})

	r.Add("plan.Column", &plan.Column{})
	r.Add("plan.Literal", &plan.Literal{})
	r.Add("plan.Call", &plan.Call{})
	r.Add("plan.Cast", &plan.Cast{})
	r.Add("plan.Member", &plan.Member{})
	r.Add("plan.Case", &plan.Case{})
}
