package server

import (
	"math"
	"slices"
	"time"

	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// sightSelf is the state that a node shows for itself.
const sightSelf = "self"

// see adds to the nodes of a cluster how this node sees them over the node channel. It reads only memory.
func see(s *Server, r *roll, nodes []api.Node) {
	if s.cfg.Monitor == nil {
		return
	}
	self, sights := s.cfg.Monitor.Self(), s.cfg.Monitor.Sights()
	for i := range nodes {
		n := &nodes[i]
		m := r.named(n.Name)
		switch at := slices.IndexFunc(sights, func(is monitor.Sight) bool { return m != nil && is.Handler == m.Handler }); {
		case m == nil || m.Worker:
		case m.Handler == self.Handler:
			n.Sight = &api.NodeSight{By: self.Node, State: sightSelf, UnreachedBy: append([]string{}, s.cfg.Monitor.CutBy()...)}
		case at >= 0:
			n.Sight = sightOf(&sights[at], self.Node)
			n.Sight.UnreachedBy = unreachedBy(sights, &self, m)
		default:
			n.Sight = &api.NodeSight{By: self.Node, State: monitor.StateUnknown, UnreachedBy: []string{}}
		}
	}
}

// sightOf converts this node's sight of a peer to the form of the API.
func sightOf(is *monitor.Sight, by string) *api.NodeSight {
	out := &api.NodeSight{By: by, State: is.State(), Silent: rounded(is.Silent), RoundTrip: rounded(is.Trip), ClockDifference: rounded(is.Skew)}
	switch out.State {
	case monitor.StateUnready:
		out.Reason = textOrNull(is.Report.Why)
	default:
		out.Reason = textOrNull(is.Error)
	}
	if !is.Asked.IsZero() {
		at := api.Time{Time: is.Asked.UTC()}
		out.CheckedAt = &at
	}
	return out
}

// unreachedBy lists the nodes that report that they cannot reach a member.
func unreachedBy(sights []monitor.Sight, self *monitor.Report, m *store.Member) []string {
	by := []string{}
	if slices.Contains(self.Unreached, m.Name) {
		by = append(by, self.Node)
	}
	for i := range sights {
		if slices.Contains(sights[i].Report.Unreached, m.Name) && !sights[i].Unreachable() {
			by = append(by, sights[i].Node)
		}
	}
	slices.Sort(by)
	return by
}

// rounded returns a duration in seconds, rounded to a millisecond.
func rounded(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }
