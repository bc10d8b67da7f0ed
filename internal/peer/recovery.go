package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
)

var _ engine.Helpers = (*Client)(nil)

// Check implements engine.Helpers.
func (c *Client) Check(ctx context.Context, s dag.ShardID, list []engine.Suspect) (repaired int, err error) {
	m, ok := c.dir.OwnerOf(s)
	switch {
	case !ok:
		return 0, fmt.Errorf("no node owns shard %d now", s)
	case m.Handler == c.dir.Self().Handler: // this node has become the owner just now
		return c.engine.CheckAll(ctx, list)
	}
	return repaired, c.Call(ctx, m, checkPath, list, &repaired)
}

// Missing implements engine.Helpers.
func (c *Client) Missing(ctx context.Context, h dag.HandlerID, list []engine.Held) (missing []engine.Held, err error) {
	m, ok := c.dir.Member(h)
	if !ok {
		return nil, fmt.Errorf("the node or worker with handler %d has left the cluster", h)
	}
	return missing, c.Call(ctx, m, holdPath, list, &missing)
}

// answering handles a call with an answer: in and out are JSON.
func answering[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if !read(w, r, &in) {
			return
		}
		out, err := f(r.Context(), in)
		reply(w, out, err)
	}
}

// reply writes the answer to a call, or why there is none.
func reply(w http.ResponseWriter, out any, err error) {
	var moved *errkind.Elsewhere
	switch {
	case errors.As(err, &moved):
		http.Error(w, err.Error(), http.StatusMisdirectedRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller may have gone
	}
}
