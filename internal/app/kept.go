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

// keptFiles finds what attempts have kept, on this node or another one.
type keptFiles struct {
	own    artifactSource
	member *membership // nil: there are no others

	mu sync.Mutex // protects at
	at map[artifact.Ref]dag.HandlerID
}

// placesMax bounds the attempts of which it is remembered who has what they kept.
const placesMax = 1000

// Paths at which the other nodes are asked.
const (
	keptListPath = peer.Prefix + "artifacts/list"
	keptReadPath = peer.Prefix + "artifacts/read"
)

// keptQuestion is what a node is asked.
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
	// listPart bounds the files of one answer: with names of 4096 bytes it stays below what a node reads of one.
	listPart = 150
	// filePart bounds the bytes of one answer, for the same reason.
	filePart = 512 << 10
)

// list gives what an attempt has kept. Where none of those who answer has it, it is away.
func (k *keptFiles) list(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error) {
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
	list := part.Items
	for part.More && len(part.Items) > 0 {
		part = keptAnswer{}
		if err := k.member.peers.Call(ctx, who, keptListPath, &keptQuestion{Ref: ref, From: len(list)}, &part); err != nil {
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

// search asks the other nodes which of them has what an attempt kept.
func (k *keptFiles) search(ctx context.Context, ref artifact.Ref) (store.Member, keptAnswer, error) {
	gone := fmt.Errorf("%w: what attempt %d of task %s kept lies on none of the nodes that answer; in a folder that the nodes share (--artifacts) it stays when one goes",
		artifact.ErrAway, ref.Attempt, ref.Task)
	if k.member == nil || k.member.node == nil {
		return store.Member{}, keptAnswer{}, artifact.NoInput("what attempt %d of task %s kept is not there any more", ref.Attempt, ref.Task)
	}
	type hit struct {
		who store.Member
		is  keptAnswer
	}
	ctx, cancel := context.WithTimeout(ctx, holderMax)
	defer cancel()
	members, _ := k.member.node.View()
	self := k.member.node.Self().Handler
	hits, asked := make(chan hit, len(members)), 0
	for i := range members {
		to := members[i]
		if to.Worker || to.Handler == self {
			continue
		}
		asked++
		go func() {
			h := hit{who: to}
			if k.member.peers.Call(ctx, to, keptListPath, &keptQuestion{Ref: ref}, &h.is) != nil {
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

// read gives a piece of a file that an attempt has kept.
func (k *keptFiles) read(ctx context.Context, ref artifact.Ref, name string, offset int64) ([]byte, error) {
	data, err := k.own.piece(ref, name, offset)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, later(err)
	}
	k.mu.Lock()
	at, known := k.at[ref]
	k.mu.Unlock()
	who, there := store.Member{}, false
	if known && k.member != nil {
		who, there = k.member.node.Member(at)
	}
	if !there {
		if who, _, err = k.search(ctx, ref); err != nil {
			return nil, err
		}
	}
	var out keptAnswer
	err = k.member.peers.Call(ctx, who, keptReadPath, &keptQuestion{Ref: ref, Name: name, Offset: offset}, &out)
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

// piece reads of a file that lies here; fs.ErrNotExist: it does not.
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
