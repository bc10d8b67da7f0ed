package peer

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/dag"
)

// A worker may have moved to the reporting node since this node last read the members. So this node reads
// them again before it refuses a report, and looks at the result every speakEvery for up to speakMax.
const (
	speakMax   = time.Second
	speakEvery = 20 * time.Millisecond
)

// Speakers decides which node may report for a handler: the node with that handler, or the home node of the
// worker with that handler.
type Speakers struct {
	dir  Directory
	node func(context.Context) string
}

// NewSpeakers makes a Speakers. node returns the name that the caller of a request has proven, or "".
func NewSpeakers(dir Directory, node func(context.Context) string) *Speakers {
	return &Speakers{dir, node}
}

// Check returns an error if the caller of a request may not report for a handler. A handler that is not
// listed has no attempts, so the engine fences its reports, and Check returns nil.
func (s *Speakers) Check(ctx context.Context, h dag.HandlerID) error {
	by := s.node(ctx)
	if s.may(by, h) {
		return nil
	}
	s.dir.Wake()
	again := time.NewTicker(speakEvery)
	defer again.Stop()
	for end := time.Now().Add(speakMax); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
		if s.may(by, h) {
			return nil
		}
	}
	m, listed := s.dir.Member(h)
	switch {
	case !listed:
		return nil
	case by == "":
		return fmt.Errorf("the report is about %s, and the call does not prove which node sends it: a token of the kind node is not enough", m.Name)
	}
	return fmt.Errorf("the report is about %s, and node %s may not report for it", m.Name, by)
}

// may reports whether the node that has proven its name may report for a handler. A node of an earlier
// version proves no name, and its row does not promise to.
func (s *Speakers) may(by string, h dag.HandlerID) bool {
	m, listed := s.dir.Member(h)
	if listed && m.Worker {
		m, listed = s.dir.Member(m.Home)
	}
	switch {
	case !listed:
		return false
	case by == "":
		return !m.Traits.Proves
	}
	return m.Name == by
}
