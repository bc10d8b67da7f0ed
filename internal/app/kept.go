package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/peer"
	"skein.dev/skein/internal/store"
)

// keptFiles finds the artifacts of attempts, on this node or another one. It is a dispatch.Kept.
type keptFiles struct {
	own    artifactSource
	member func() *membership // returns nil if there are no other members

	mu sync.Mutex // protects at
	at map[artifact.Ref]dag.HandlerID
}

// placesMax bounds the attempts for which the node with their artifacts is remembered.
const placesMax = 1000

// Paths at which the other nodes are asked.
const (
	keptListPath = peer.Prefix + "artifacts/list"
	keptReadPath = peer.Prefix + "artifacts/read"
)

// keptQuestion is the request to a node for artifacts.
type keptQuestion struct {
	Ref    artifact.Ref
	From   int    // of the list
	Name   string // of a file
	Offset int64
}

// keptAnswer is a part of a list, or of a file.
type keptAnswer struct {
	Found bool
	Items []artifact.Info
	More  bool
	Data  []byte
}

const (
	// listPart bounds the files of one answer. An answer of 150 names with 4096 bytes each stays below the size
	// that a node reads.
	listPart = 150
	// filePart bounds the bytes of one answer, for the same reason.
	filePart = 512 << 10
)

// List implements dispatch.Kept. It returns the artifacts of an attempt. If no node that answers has them,
// the error says that they are away.
func (k *keptFiles) List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error) {
	for _, st := range k.own.stores {
		list, err := st.List(ctx, ref)
		if !errors.Is(err, fs.ErrNotExist) {
			return list, later(err)
		}
	}
	who, part, err := k.search(ctx, ref)
	if err != nil {
		return nil, err
	}
	list, others := part.Items, k.member()
	for part.More && len(part.Items) > 0 {
		part = keptAnswer{}
		if err := others.peers.Call(ctx, who, keptListPath, &keptQuestion{Ref: ref, From: len(list)}, &part); err != nil {
			return nil, fmt.Errorf("%w: %w", artifact.ErrAway, err)
		}
		list = append(list, part.Items...)
	}
	return list, nil
}

func later(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", artifact.ErrLater, err)
	}
	return err
}

// search asks the other nodes which of them has the artifacts of an attempt.
func (k *keptFiles) search(ctx context.Context, ref artifact.Ref) (store.Member, keptAnswer, error) {
	gone := fmt.Errorf("%w: no node that answers has the artifacts of attempt %d of task %s; with --artifacts, a folder that the nodes share, they remain available when a node is gone",
		artifact.ErrAway, ref.Attempt, ref.Task)
	others := k.member()
	if others == nil || others.node == nil {
		return store.Member{}, keptAnswer{}, artifact.NoInput("what attempt %d of task %s kept is not there any more", ref.Attempt, ref.Task)
	}
	type hit struct {
		who store.Member
		is  keptAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, holderMax)
	defer cancel()
	members, _ := others.node.View()
	self := others.node.Self().Handler
	hits, asked := make(chan hit, len(members)), 0
	for i := range members {
		to := members[i]
		if to.Worker || to.Handler == self {
			continue
		}
		asked++
		go func() {
			h := hit{who: to}
			if others.peers.Call(ctx, to, keptListPath, &keptQuestion{Ref: ref}, &h.is) != nil {
				h.is.Found = false
			}
			hits <- h
		}()
	}
	for range asked {
		if h := <-hits; h.is.Found {
			k.mu.Lock()
			if k.at == nil || len(k.at) >= placesMax {
				k.at = map[artifact.Ref]dag.HandlerID{}
			}
			k.at[ref] = h.who.Handler
			k.mu.Unlock()
			return h.who, h.is, nil
		}
	}
	return store.Member{}, keptAnswer{}, gone
}

// Read implements dispatch.Kept.
func (k *keptFiles) Read(ctx context.Context, ref artifact.Ref, name string, offset int64) ([]byte, error) {
	data, err := k.own.piece(ref, name, offset)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, later(err)
	}
	k.mu.Lock()
	at, known := k.at[ref]
	k.mu.Unlock()
	who, there, others := store.Member{}, false, k.member()
	if known && others != nil {
		who, there = others.node.Member(at)
	}
	if !there {
		if who, _, err = k.search(ctx, ref); err != nil {
			return nil, err
		}
	}
	var out keptAnswer
	err = others.peers.Call(ctx, who, keptReadPath, &keptQuestion{Ref: ref, Name: name, Offset: offset}, &out)
	if err == nil && !out.Found {
		err = fmt.Errorf("node %s does not have it any more", who.Name)
	}
	if err != nil {
		k.mu.Lock()
		delete(k.at, ref)
		k.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", artifact.ErrAway, err)
	}
	return out.Data, nil
}

// Place implements dispatch.Kept.
func (k *keptFiles) Place(ref artifact.Ref) (string, bool) { return k.own.place(ref) }

// place returns the folder of this machine that holds the files of an attempt.
func (s artifactSource) place(ref artifact.Ref) (string, bool) {
	for _, st := range s.stores {
		if at, err := st.Files(ref); err == nil {
			if at, err = filepath.Abs(at); err == nil { // the keeper has another working directory
				if _, err := os.Stat(at); err == nil {
					return at, true
				}
			}
		}
	}
	return "", false
}

// piece reads a part of a file that is on this machine. It returns fs.ErrNotExist if the file is not here.
func (s artifactSource) piece(ref artifact.Ref, name string, offset int64) ([]byte, error) {
	for _, st := range s.stores {
		at, err := st.Files(ref)
		if err != nil {
			return nil, err
		}
		file, err := os.OpenInRoot(at, filepath.FromSlash(name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		data := make([]byte, filePart)
		n, err := file.ReadAt(data, offset)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return data[:n], err
	}
	return nil, fs.ErrNotExist
}

// answerKept answers the other nodes.
func answerKept(s artifactSource, read bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q keptQuestion
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, holdingBytesMax)).Decode(&q); err != nil || q.From < 0 || q.Offset < 0 {
			http.Error(w, "this is no question for artifacts", http.StatusBadRequest)
			return
		}
		out, err := s.answer(r.Context(), &q, read)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller has gone
	}
}

func (s artifactSource) answer(ctx context.Context, q *keptQuestion, read bool) (out keptAnswer, err error) {
	if read {
		out.Data, err = s.piece(q.Ref, q.Name, q.Offset)
		out.Found = err == nil
	} else {
		for _, st := range s.stores {
			if out.Items, err = st.List(ctx, q.Ref); err == nil {
				out.Found, out.Items = true, out.Items[min(q.From, len(out.Items)):]
				if out.More = len(out.Items) > listPart; out.More {
					out.Items = out.Items[:listPart]
				}
				break
			} else if !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return out, err
}
