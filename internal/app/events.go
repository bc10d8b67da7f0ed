package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/server"
	api "skein.dev/skein/sdk/api/v1"
)

// eventsPath is the path at which a node streams the events of its own commits.
const eventsPath = peer.Prefix + "events"

// ofThisNode answers requests for the stream of this node's own events. The asking node has already decided
// what its caller may watch. The check is left out here, because a node has no verb of its own in any
// namespace.
func ofThisNode(routes http.Handler) http.HandlerFunc {
	routes = auth.AsLocal(routes)
	return func(w http.ResponseWriter, r *http.Request) {
		own := r.Clone(r.Context())
		own.URL.Path = api.Prefix + "/events"
		own.Header.Set(peer.HeaderHere, "true")
		routes.ServeHTTP(w, own)
	}
}

// streets opens the event streams of other nodes.
type streets struct{ m *membership }

var _ server.Neighbours = streets{}

// Others implements server.Neighbours.
func (s streets) Others() []dag.HandlerID {
	self := s.m.node.Self().Handler
	members, _ := s.m.node.View()
	var others []dag.HandlerID
	for i := range members {
		if m := &members[i]; !m.Worker && m.Handler != self {
			others = append(others, m.Handler)
		}
	}
	return others
}

var errGone = errors.New("that node has left the cluster")

// Events implements server.Neighbours.
func (s streets) Events(ctx context.Context, node dag.HandlerID, query url.Values) (io.ReadCloser, error) {
	m, ok := s.m.node.Member(node)
	if !ok {
		return nil, errGone
	}
	return s.m.peers.Open(ctx, m, eventsPath+"?"+query.Encode())
}
