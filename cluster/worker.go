// Package cluster has the identity of workers: who they are, never where DNS
// says they are.
package cluster

// WorkerID is a worker's UUID, made at its first start and kept in its data
// folder. Locality compares these, never host names.
type WorkerID string

// Worker is what the scheduler knows of a worker.
type Worker struct {
	ID    WorkerID
	Name  string // for people
	Host  string // normalised
	Rack  string
	Slots int
	// Address is where its services listen, "host:port"; "" for a worker in the
	// scheduler's own process.
	Address string
}
