package store

import "context"

// Checker is a store that can compare its own structures (lists, counts, indexes) with the rows from which
// they are derived.
type Checker interface {
	// Check returns the differences, in words. It reads everything.
	Check(ctx context.Context) ([]string, error)
}

// Capabilities holds the parts of a store that not every engine has. A field is nil if this store does not
// have the part.
type Capabilities struct {
	Workers   Workers   // a store that lists the workers of its nodes
	Cluster   Cluster   // a store that several nodes can share
	Stager    Stager    // a store that writes a transaction ahead
	Mortal    Mortal    // a store that can fail permanently before it is closed
	Upgrader  Upgrader  // a store that completes migrations while it is used
	Lined     Lined     // a store that can read the history of its server
	Portable  Portable  // a store that can be copied as a whole
	Retention Retention // a store that deletes by age and number
	Logs      Logs      // a store that keeps the output of attempts
	Checker   Checker
}

// Can returns the capabilities of a store. It is the only function that finds them by type, so a wrapper that
// embeds only Store has no capabilities.
func Can(s any) (c Capabilities) {
	c.Workers, _ = s.(Workers)
	c.Cluster, _ = s.(Cluster)
	c.Stager, _ = s.(Stager)
	c.Mortal, _ = s.(Mortal)
	c.Upgrader, _ = s.(Upgrader)
	c.Lined, _ = s.(Lined)
	c.Portable, _ = s.(Portable)
	c.Retention, _ = s.(Retention)
	c.Logs, _ = s.(Logs)
	c.Checker, _ = s.(Checker)
	return c
}
