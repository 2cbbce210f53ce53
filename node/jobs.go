package node

import (
	"github.com/skepdb/skep/jobs"
)

// Jobs returns how far the jobs are that run, and how the last ones ended, in the
// order in which they were submitted.
func (n *Node) Jobs() []jobs.Status { return n.scheduler.List() }
