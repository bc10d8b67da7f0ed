package nodes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Finder finds the artifacts of attempts on this node or another one. It implements dispatch.Kept.
type Finder struct {
	own    Source
	others Others // nil if this node is alone

	mu sync.Mutex // protects at
	at map[artifact.Ref]dag.HandlerID
}

// NewFinder returns a finder. others is nil for a node that is alone.
func NewFinder(own Source, others Others) *Finder {
	return &Finder{own: own, others: others, at: map[artifact.Ref]dag.HandlerID{}}
}

const (
	// placesMax bounds the number of attempts for which the node with their artifacts is remembered.
	placesMax = 1000
	// searchMax bounds the time of a search on the other nodes.
	searchMax = 5 * time.Second
)

// List returns the artifacts of an attempt. If no node that answers has them, its error wraps
// artifact.ErrAway.
func (f *Finder) List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error) {
	list, err := f.own.List(ctx, ref)
	if !errors.Is(err, fs.ErrNotExist) {
		return list, later(err)
	}
	who, part, err := f.search(ctx, ref)
	if err != nil {
		return nil, err
	}
	list = part.Items
	for part.More && len(part.Items) > 0 {
		part = answer{}
		if err := f.others.Call(ctx, who, listPath, &question{Ref: ref, From: len(list)}, &part); err != nil {
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

// search finds the other node that has the artifacts of an attempt.
func (f *Finder) search(ctx context.Context, ref artifact.Ref) (store.Member, answer, error) {
	if f.others == nil {
		return store.Member{}, answer{}, artifact.NoInput("what attempt %d of task %s kept is not there any more", ref.Attempt, ref.Task)
	}
	who, part, found := ask(ctx, f.others, listPath, &question{Ref: ref}, func(a *answer) bool { return a.Found })
	if !found {
		return who, part, fmt.Errorf("%w: no node that answers has the artifacts of attempt %d of task %s; with --artifacts, a folder that the nodes share, they remain available when a node is gone",
			artifact.ErrAway, ref.Attempt, ref.Task)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.at) >= placesMax {
		clear(f.at)
	}
	f.at[ref] = who.Handler
	return who, part, nil
}

// Holder returns the other node that has the artifacts of an attempt.
func (f *Finder) Holder(ctx context.Context, ref artifact.Ref) (dag.HandlerID, bool) {
	if f.others == nil {
		return 0, false
	}
	who, _, found := ask(ctx, f.others, hasPath, &ref, func(has *bool) bool { return *has })
	return who.Handler, found
}

// ask sends a question to all other nodes at once, and returns the first positive answer.
func ask[A any](ctx context.Context, others Others, path string, q any, yes func(*A) bool) (store.Member, A, bool) {
	type hit struct {
		who store.Member
		is  A
		yes bool
	}
	ctx, cancel := context.WithTimeout(ctx, searchMax)
	defer cancel()
	members, _ := others.View()
	self := others.Self().Handler
	hits, asked := make(chan hit, len(members)), 0
	for i := range members {
		h := hit{who: members[i]}
		if h.who.Worker || h.who.Handler == self {
			continue
		}
		asked++
		go func() {
			err := others.Call(ctx, h.who, path, q, &h.is)
			h.yes = err == nil && yes(&h.is)
			hits <- h
		}()
	}
	for range asked {
		if h := <-hits; h.yes {
			return h.who, h.is, true
		}
	}
	var none hit
	return none.who, none.is, false
}

// Read returns a piece of a file. It is empty at the end of the file.
func (f *Finder) Read(ctx context.Context, ref artifact.Ref, name string, offset int64) ([]byte, error) {
	data, err := f.own.piece(ctx, ref, name, offset)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, later(err)
	}
	who, known := f.remembered(ref)
	if !known {
		if who, _, err = f.search(ctx, ref); err != nil {
			return nil, err
		}
	}
	var out answer
	err = f.others.Call(ctx, who, readPath, &question{Ref: ref, Name: name, Offset: offset}, &out)
	if err == nil && !out.Found {
		err = fmt.Errorf("node %s no longer has the file", who.Name)
	}
	if err != nil {
		f.mu.Lock()
		delete(f.at, ref)
		f.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", artifact.ErrAway, err)
	}
	return out.Data, nil
}

// remembered returns the node that had the artifacts of an attempt, if it is still a member.
func (f *Finder) remembered(ref artifact.Ref) (store.Member, bool) {
	f.mu.Lock()
	at, known := f.at[ref]
	f.mu.Unlock()
	if !known || f.others == nil {
		return store.Member{}, false
	}
	return f.others.Member(at)
}

// Place returns the folder of this machine with the artifacts of an attempt. ok is false if there is none.
func (f *Finder) Place(ref artifact.Ref) (folder string, ok bool) { return f.own.place(ref) }
