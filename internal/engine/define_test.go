package engine_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

func definition(g *dag.Graph, name string) engine.Definition {
	return engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Digest: g.Pack(), User: "ada"}
}

// TestDefinitions walks a workflow through its life.
func TestDefinitions(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			n := start(t, open(t), newHands(t))
			ctx := t.Context()
			var w store.Workflow
			apply := func(size int, revision int64) (bool, error) {
				t.Helper()
				d := definition(wide(t, size), "w")
				d.Revision = revision
				is, created, err := n.Apply(ctx, d)
				if err == nil {
					w = is
				}
				return created, err
			}
			expect := func(what string, created, want bool, err error, version, latest int32, revision int64) {
				t.Helper()
				row, readErr := n.Workflow(ctx, "test", "w")
				if err != nil || readErr != nil || created != want || row != w || w.Version != version || w.Latest != latest || w.Revision != revision {
					t.Errorf("%s: created %v, %+v, row %+v: %v %v", what, created, w, row, err, readErr)
				}
			}
			created, err := apply(1, 0)
			expect("the first", created, true, err, 1, 1, 1)
			created, err = apply(1, 0)
			expect("the same again", created, false, err, 1, 1, 1)
			created, err = apply(2, 1)
			expect("another, with If-Match", created, true, err, 2, 2, 2)
			if _, err = apply(3, 1); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("an old If-Match: %v", err)
			}
			if _, err = apply(2, 1); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("the same with an old If-Match: %v", err)
			}
			w, err = n.Rollback(ctx, w, 1, 2, nil)
			expect("rolled back", false, false, err, 1, 2, 3)
			w, err = n.Rollback(ctx, w, 1, 0, nil)
			expect("rolled back to the same", false, false, err, 1, 2, 3)
			if _, err := n.Rollback(ctx, w, 7, 0, nil); !errors.Is(err, errkind.ErrNotFound) {
				t.Errorf("rolled back to nowhere: %v", err)
			}
			created, err = apply(1, 0)
			expect("what is current", created, false, err, 1, 2, 3)
			created, err = apply(2, 0)
			expect("what is newest: current again", created, false, err, 2, 2, 4)
			created, err = apply(1, 0)
			expect("an old content is a new version", created, true, err, 3, 3, 5)

			old := w
			w, err = n.SetState(ctx, w, store.WorkflowPaused, 0, nil)
			expect("paused", false, false, err, 3, 3, 6)
			w, err = n.SetState(ctx, w, store.WorkflowPaused, 0, nil)
			expect("paused again", false, false, err, 3, 3, 6)
			if _, err := n.Submit(ctx, submission(old)); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("a submission that saw it active: %v", err)
			}
			w, err = n.SetState(ctx, w, store.WorkflowActive, 6, nil)
			expect("resumed", false, false, err, 3, 3, 7)
			n.ends(n.submit(old), dag.RunSucceeded)
			if _, err := n.SetState(ctx, w, "asleep", 0, nil); !errors.Is(err, errkind.ErrInvalid) {
				t.Errorf("an unknown state: %v", err)
			}
			deleted, err := n.SetState(ctx, w, store.WorkflowDeleted, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := n.Submit(ctx, submission(w)); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("a submission to what is deleted: %v", err)
			}
			if _, err := n.SetState(ctx, deleted, store.WorkflowActive, 0, nil); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("a change of what is deleted: %v", err)
			}
			if created, err = apply(1, 0); err != nil || !created || w.ID == deleted.ID || w.Version != 1 {
				t.Errorf("the name again: %+v %v", w, err)
			}
		})
	}
}

// TestFirstAppliesAtOnce makes many callers apply the same three workflows at once. Each workflow is made
// once, with one version.
func TestFirstAppliesAtOnce(t *testing.T) {
	n := start(t, openSQLite(t), newHands(t))
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{}
	n.together(func() {
		for i := range 24 {
			wg.Go(func() {
				name := fmt.Sprint(i % 3)
				w, created, err := n.Apply(t.Context(), definition(wide(t, 1), name))
				if err != nil || w.ID == 0 {
					t.Errorf("apply: %+v %v", w, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if created {
					made[fmt.Sprint(name, " ", w.ID)]++
				}
			})
		}
	}, 24)
	wg.Wait()
	for name, count := range made {
		if count != 1 {
			t.Errorf("%s has %d versions", name, count)
		}
	}
	if len(made) != 3 {
		t.Errorf("the workflows are %v", made)
	}
	n.sound()
}

// TestDeleteAndCreateTogether deletes a workflow and makes one of its name in the same
// moment.
func TestDeleteAndCreateTogether(t *testing.T) {
	n := start(t, openSQLite(t), newHands(t))
	old := n.apply("w", wide(t, 1))
	var wg sync.WaitGroup
	n.together(func() {
		wg.Go(func() {
			if _, err := n.SetState(t.Context(), old, store.WorkflowDeleted, 0, nil); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
		eventually(t, "it waits", func() bool { return n.Waiting() == 1 })
		wg.Go(func() { // it has read the old version, which is gone when its turn comes
			if _, _, err := n.Apply(t.Context(), definition(wide(t, 2), "w")); !errors.Is(err, errkind.ErrConflict) {
				t.Errorf("apply: %v", err)
			}
		})
	}, 2)
	wg.Wait()
	if w := n.apply("w", wide(t, 2)); w.ID == old.ID || w.Version != 1 {
		t.Errorf("the new one: %+v", w)
	}
}

// TestRefusedDefinition: nothing remains of a definition that the store refuses.
func TestRefusedDefinition(t *testing.T) {
	n := start(t, openSQLite(t), newHands(t))
	w := n.apply("w", wide(t, 1))
	d := definition(wide(t, 2), "w")
	d.User = "a\x00"
	if _, _, err := n.Apply(t.Context(), d); !errors.Is(err, errkind.ErrInvalid) {
		t.Fatalf("apply: %v", err)
	}
	n.ends(n.submit(w), dag.RunSucceeded) // of version 1
	if is, created, err := n.Apply(t.Context(), definition(wide(t, 2), "w")); err != nil || !created || is.Version != 2 || is.Revision != 2 {
		t.Errorf("apply: %+v %v %v", is, created, err)
	}
}

// TestGraphCache: the cache keeps a bounded number of graphs, and no errors.
func TestGraphCache(t *testing.T) {
	n := start(t, openMemory(t), newHands(t))
	w := n.apply("w", wide(t, 1))
	for range 2 {
		if _, err := n.Graph(w.ID, 2); !errors.Is(err, errkind.ErrNotFound) {
			t.Errorf("a version that does not exist: %v", err)
		}
	}
	if c := n.CachedGraphs(); c != 1 {
		t.Errorf("%d graphs are kept", c)
	}
	large := wide(t, 100_000)
	for i := range 12 {
		n.apply(fmt.Sprint("large", i), large)
	}
	if c := n.CachedGraphs(); c > engine.GraphTasksMax/100_000+1 {
		t.Errorf("%d large graphs are kept", c)
	}
	n.ends(n.submit(w), dag.RunSucceeded) // its graph may no longer be in memory: then the split is Leader work
}

// TestBeside: a new workflow gets the shard that Beside names, even if another shard has fewer workflows.
// Only the owner of this shard makes the workflow.
func TestBeside(t *testing.T) {
	a, b := pair(t)
	a.own(0)
	b.own(1)
	g := graph(t, "a").Pack()
	for i := range 3 {
		shard := dag.ShardID(1)
		d := engine.Definition{Namespace: "test", Name: fmt.Sprint("w", i), Def: []byte("{}"), Graph: g, Digest: g, User: "ada", Beside: &shard}
		var elsewhere *errkind.Elsewhere
		if _, _, err := a.Apply(t.Context(), d); !errors.As(err, &elsewhere) || elsewhere.Shard != 1 {
			t.Fatalf("who does not own the shard says %v", err)
		}
		w, made, err := b.Apply(t.Context(), d)
		if err != nil || !made || w.Shard != 1 {
			t.Fatalf("workflow %d is of shard %d: %v", i, w.Shard, err)
		}
	}
}
