package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/peer"
)

// question is a request to another node for artifacts.
type question struct {
	Ref    artifact.Ref
	From   int    // first index of the list to return
	Name   string // name of a file
	Offset int64
}

// answer is a part of a list, or of a file.
type answer struct {
	Found bool
	Items []artifact.Info
	More  bool
	Data  []byte
}

const (
	// listPart bounds the number of files in one answer. An answer of 150 names with 4096 bytes each is
	// within the size that a node reads.
	listPart = 150
	// filePart bounds the bytes of a file in one answer, for the same reason.
	filePart = 512 << 10
	// questionBytesMax bounds the bytes of a question.
	questionBytesMax = 64 << 10
)

// Handle registers the handlers of the calls from other nodes.
func Handle(mux peer.Mux, s Source) {
	mux.HandleFunc("POST "+hasPath, answering(func(ctx context.Context, ref *artifact.Ref) (bool, error) { return s.has(ctx, *ref), nil }))
	mux.HandleFunc("POST "+listPath, answering(s.listed))
	mux.HandleFunc("POST "+readPath, answering(s.read))
}

// answering returns the handler of a call. Question and answer are JSON.
func answering[Q, A any](answer func(context.Context, *Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, questionBytesMax)).Decode(&q); err != nil {
			http.Error(w, "the body is not a request for artifacts: "+err.Error(), http.StatusBadRequest)
			return
		}
		out, err := answer(r.Context(), &q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller has gone
	}
}

func (s Source) listed(ctx context.Context, q *question) (answer, error) {
	list, err := s.List(ctx, q.Ref)
	if errors.Is(err, fs.ErrNotExist) {
		return answer{}, nil
	}
	if err != nil {
		return answer{}, err
	}
	list = list[min(max(q.From, 0), len(list)):]
	return answer{Found: true, Items: list[:min(len(list), listPart)], More: len(list) > listPart}, nil
}

func (s Source) read(ctx context.Context, q *question) (answer, error) {
	data, err := s.piece(ctx, q.Ref, q.Name, max(q.Offset, 0))
	if errors.Is(err, fs.ErrNotExist) {
		return answer{}, nil
	}
	return answer{Found: err == nil, Data: data}, err
}
