package server

import (
	"context"
	"net/http"

	api "skein.dev/skein/sdk/api/v1"
)

// Weighing returns the weight of the answers about versions that are being read.
func Weighing(s *Server) int64 {
	s.reads.mu.Lock()
	defer s.reads.mu.Unlock()
	return s.reads.used
}

// Fill makes a server as busy as its bounds allow, with heavy requests or with large answers. It returns the
// function that ends this state.
func Fill(s *Server, answers bool) (end func()) {
	w := &s.heavy
	if answers {
		w = &s.reads
	}
	set := func(used, waiting int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.used, w.waiting = used, waiting
	}
	set(heavyMax, heavyWaitingMax)
	return func() { set(0, 0) }
}

// Fans returns the number of open fans.
func Fans(s *Server) int {
	s.fans.mu.Lock()
	defer s.fans.mu.Unlock()
	return len(s.fans.open)
}

// Counted answers a request for the attempts of a workflow's tasks, from at most some rows.
func Counted(ctx context.Context, s *Server, workflow string, rows int) (api.WorkflowStats, error) {
	in := statsIn{WorkflowPath: WorkflowPath{Namespace: api.NamespaceDefault, Name: workflow}, By: "task"}
	out, err := statistics{s, rows}.workflow(ctx, &in)
	if err != nil {
		return api.WorkflowStats{}, err
	}
	return out.Body, nil
}

// LargeBodies returns the patterns of the routes whose bodies may be larger than usual.
func LargeBodies(s *Server) (patterns []string) {
	for pattern, limit := range s.adapter.bodies {
		if limit > jsonBytesMax {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// Pattern returns the pattern of the route that handles a request.
func Pattern(s *Server, r *http.Request) string {
	_, pattern := s.mux.Handler(r)
	return pattern
}

// QuickStarts returns how many starts were answered without huma.
func QuickStarts(s *Server) int64 { return s.quick.Load() }
