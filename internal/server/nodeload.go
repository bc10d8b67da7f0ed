package server

import (
	"context"
	"net/http"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// nodeLoads answers the calls about the load of a node.
type nodeLoads struct{ *Server }

type nodeLoadIn struct {
	Name string `path:"name" minLength:"1" maxLength:"100"`
	Span string `query:"span" default:"1h" doc:"How far to look back, up to an hour, as in 15m."`
}

// get returns the load that this node has recorded.
func (s nodeLoads) get(ctx context.Context, in *nodeLoadIn) (*jsonOut[api.NodeLoads], error) {
	span, err := time.ParseDuration(in.Span)
	if err != nil || span <= 0 || span > time.Hour {
		return nil, invalid("span is %q: use a duration up to 1h, such as 15m", in.Span)
	}
	worker := fail(http.StatusConflict, api.ProblemConflict, "%s is a worker: only nodes record their load", in.Name)
	if err := isSelf(ctx, s.Server, in.Name, worker); err != nil {
		return nil, err
	}
	if s.cfg.Monitor == nil {
		return nil, fail(http.StatusConflict, api.ProblemConflict, "node %s does not run now, so it has no load", in.Name)
	}
	out := api.NodeLoads{Node: in.Name, Items: []api.NodeLoadPoint{}}
	for _, p := range s.cfg.Monitor.Loads(time.Now().Add(-span)) {
		out.Items = append(out.Items, api.NodeLoadPoint{At: api.Time{Time: p.At.UTC()}, CPU: p.CPU, Commits: p.Commits, CommitTime: p.CommitTime.Seconds(),
			Started: p.Started, Slots: p.Slots, Busy: p.Busy, Lag: p.Lag.Seconds()})
	}
	return &jsonOut[api.NodeLoads]{Body: out}, nil
}

// isSelf returns nil if this process is the node with that name, because each node of a cluster answers only
// for itself. worker is the error for the name of a worker.
func isSelf(ctx context.Context, s *Server, name string, worker error) error {
	if s.cfg.Cluster == nil {
		switch {
		case worksHere(s, name):
			return worker
		case name != s.cfg.Node.Name:
			return noNode(name)
		}
		return nil
	}
	r, err := s.roll(ctx)
	if err != nil {
		return err
	}
	switch m := r.named(name); {
	case m == nil:
		return noNode(name)
	case m.Worker:
		return worker
	case m.Handler != s.engine.Handler().ID:
		return askThere(m.Handler)
	}
	return nil
}
