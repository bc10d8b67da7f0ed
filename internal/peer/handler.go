package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
)

// Mux takes handlers for a method and a path.
type Mux interface {
	HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request))
}

// Handle registers the calls of other nodes. cancel ends attempts of this node. may returns an error if the
// caller of a request may not report for a handler.
func Handle(mux Mux, dir Directory, e Engine, cancel func([]dag.Cancel), may func(context.Context, dag.HandlerID) error) {
	mux.HandleFunc("POST "+reportPath, func(w http.ResponseWriter, r *http.Request) {
		var in report
		if !read(w, r, &in) {
			return
		}
		if err := may(r.Context(), in.Handler); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		verdict, err := e.Hear(r.Context(), in.Handler, in.Report)
		var moved *errkind.Elsewhere
		switch {
		case errors.As(err, &moved):
			http.Error(w, moved.Error(), http.StatusMisdirectedRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default: // this includes fenced reports, which the sender need not send again
			fmt.Fprintln(w, verdict)
		}
	})
	mux.HandleFunc("POST "+cancelPath, func(w http.ResponseWriter, r *http.Request) {
		var in []dag.Cancel
		if read(w, r, &in) {
			cancel(in)
		}
	})
	mux.HandleFunc("POST "+submitPath, takeSubmission(e))
	mux.HandleFunc("POST "+checkPath, answering(func(ctx context.Context, in []engine.Suspect) (int, error) { return e.CheckAll(ctx, in) }))
	mux.HandleFunc("POST "+holdPath, answering(func(ctx context.Context, in []engine.Held) ([]engine.Held, error) { return e.Missing(ctx, in) }))
	mux.HandleFunc("POST "+ownPath, func(w http.ResponseWriter, r *http.Request) {
		var in []engine.AttemptID
		if !read(w, r, &in) {
			return
		}
		if err := e.Disown(in); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST "+blindPath, func(w http.ResponseWriter, _ *http.Request) {
		if !dir.Blind() {
			http.Error(w, "this node reads the store", http.StatusConflict)
		}
	})
	mux.HandleFunc("POST "+wakePath, func(http.ResponseWriter, *http.Request) { dir.Wake() })
}

// OnlyJSON refuses the types that a page of another site can send without a preflight request: forms and
// plain text.
func OnlyJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "calls between nodes are application/json", http.StatusUnsupportedMediaType)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body := http.MaxBytesReader(w, r.Body, BodyMax)
	err := json.NewDecoder(body).Decode(into)
	if err == nil { // the proof of a call is compared with its body at the end of the body
		_, err = io.Copy(io.Discard, body)
	}
	if err != nil {
		http.Error(w, "body: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}
