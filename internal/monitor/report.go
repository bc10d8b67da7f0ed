package monitor

import (
	"time"

	"skein.dev/skein/internal/dag"
)

// Report is what a node tells its peers about itself.
type Report struct {
	Node    string
	Handler dag.HandlerID
	Version string
	Ready   bool
	Why     string    // why the node is not ready; "" if it is ready
	Clock   time.Time // the node's clock, at the answer
	// Skew is the clock of the node minus the clock of the database. Skewed reports whether it is known.
	Skew   time.Duration
	Skewed bool
	Stuck  time.Duration // the time for which a part has completed no turn although work waits
	// DiskFree and DiskTotal are the bytes of the disk of the data folder; DiskTotal is 0 if they are unknown.
	DiskFree, DiskTotal int64
	Expires             time.Time // end of the certificate; zero if the node has none
	// Backup is the time of the last backup that was made with the node's data folder; zero if there is none.
	Backup   time.Time
	Unserved int64 // placements that ready tasks ask for and that no worker has
	// Sources are the sources of events that are away, the longest first. It has up to sourcesMax.
	Sources []Away
	// Lags are the numbers of events that wait to be read by sources of events, by namespace/workflow/trigger.
	// Sources whose lag is unknown or 0 are left out. It has up to lagsMax.
	Lags map[string]int64
	// Unreached are the peers that the node cannot reach, by name. It names up to unreachedMax.
	Unreached []string
}

// Away is a source of events that does not reach the other system.
type Away struct {
	Trigger string // namespace/workflow/trigger
	Since   time.Time
	Why     string
}

const (
	// unreachedMax bounds the names of Report.Unreached.
	unreachedMax = 20
	// sourcesMax bounds Report.Sources.
	sourcesMax = 200
	// lagsMax bounds Report.Lags.
	lagsMax = 1000
)

// Sight is what a node knows about one peer from its own calls.
type Sight struct {
	Node    string
	Handler dag.HandlerID
	Version string
	// Silent is the time since the counter of the peer moved in the database, on the clock of the observer.
	Silent  time.Duration
	Asked   time.Time     // time of the last call; zero if there is none
	Reached bool          // the last call was answered
	Fails   int           // calls in a row that failed
	Error   string        // error of the last call
	Trip    time.Duration // round trip of the last answer
	Skew    time.Duration // clock of the peer minus clock of the observer, by the last answer
	Report  Report        // the last answer
}

// failsMax is the number of failed calls in a row after which a peer counts as unreachable.
const failsMax = 2

// Unreachable reports whether the peer does not answer although the database lists it.
func (s *Sight) Unreachable() bool { return s.Fails >= failsMax }

// The states of a peer, as metrics and callers see them.
const (
	StateReached     = "reached"
	StateUnready     = "unready" // the node answers that it is not ready
	StateUnreachable = "unreachable"
	StateUnknown     = "unknown" // the node was not called yet
)

// State is the state of the peer.
func (s *Sight) State() string {
	switch {
	case s.Unreachable():
		return StateUnreachable
	case s.Report.Node == "":
		return StateUnknown
	case !s.Report.Ready:
		return StateUnready
	}
	return StateReached
}
