package config

import (
	"fmt"
	"time"

	"skein.dev/skein/internal/workflow"
)

const (
	// beatsPerLag is the least number of heartbeats within the lag. With fewer, a node would be declared dead
	// after one late heartbeat.
	beatsPerLag = 4
	// beatsPerLease is the least number of heartbeats within a lease. An attempt must outlive the longest
	// time between two renewals, plus one late renewal. The time of a renewal is the time at which it was
	// sent.
	beatsPerLease = 3
)

// checkSpans refuses times with which healthy nodes and workers would be declared dead, or would end their
// attempts. The lease of a node on SQLite does not depend on its heartbeat.
func (c *Config) checkSpans() error {
	for _, s := range []struct {
		name  string
		is    time.Duration
		beats time.Duration
	}{{"lag", c.Lag, beatsPerLag}, {"lease", c.Lease, beatsPerLease}} {
		if least := s.beats * c.Heartbeat; s.is < least && (s.name == "lag" || c.Postgres != "") {
			return c.Wrong(s.name, fmt.Errorf("%v is shorter than %d heartbeats of %v: set it to at least %v, or heartbeat to at most %v",
				workflow.Duration(s.is), s.beats, workflow.Duration(c.Heartbeat), workflow.Duration(least), workflow.Duration((s.is/s.beats).Truncate(time.Millisecond))))
		}
	}
	return c.checkBalance()
}
