package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// village is a directory of two nodes: the caller, and the owner of every shard.
type village struct {
	self, owner store.Member
	blind       bool
}

func (v *village) Self() store.Member       { return v.self }
func (v *village) Alive(dag.HandlerID) bool { return true }
func (v *village) Blind() bool              { return v.blind }
func (v *village) Wake()                    {}
func (v *village) OwnerOf(dag.ShardID) (store.Member, bool) {
	return v.owner, v.owner.Handler != 0
}
func (v *village) Member(h dag.HandlerID) (store.Member, bool) { return v.owner, v.owner.Handler == h }

// desk is an engine that answers submissions as a test decides, and records deposits.
type desk struct {
	answer    func(engine.Submission) (engine.Accepted, error)
	deposited []engine.Submission
	asked     []engine.AttemptID
}

func (d *desk) Hear(context.Context, dag.HandlerID, engine.Report) (dag.Verdict, error) {
	return 0, nil
}
func (d *desk) Disown(ids []engine.AttemptID) error {
	d.asked = append(d.asked, ids...)
	return nil
}
func (d *desk) RunRow(context.Context, dag.RunID) (dag.RunRow, error) { return dag.RunRow{}, nil }
func (d *desk) Submit(_ context.Context, s engine.Submission) (engine.Accepted, error) {
	return d.answer(s)
}
func (d *desk) Deposit(_ context.Context, s engine.Submission) (engine.Accepted, error) {
	d.deposited = append(d.deposited, s)
	return engine.Accepted{Run: s.ID}, nil
}
func (d *desk) CheckAll(_ context.Context, list []engine.Suspect) (int, error) { return len(list), nil }
func (d *desk) Missing(_ context.Context, list []engine.Held) ([]engine.Held, error) {
	return list[1:], nil
}

func TestSubmit(t *testing.T) {
	older := engine.NewRunID()
	accept := func(s engine.Submission) (engine.Accepted, error) { return engine.Accepted{Run: s.ID}, nil }
	fail := func(err error) func(engine.Submission) (engine.Accepted, error) {
		return func(engine.Submission) (engine.Accepted, error) {
			return engine.Accepted{}, fmt.Errorf("because: %w", err)
		}
	}
	for _, c := range []struct {
		name     string
		owner    func(engine.Submission) (engine.Accepted, error) // nil if the owner does not listen
		nobody   bool
		deposits int
		existing bool
		err      error
	}{
		{name: "accepted", owner: accept},
		{name: "found by its key", owner: func(engine.Submission) (engine.Accepted, error) {
			return engine.Accepted{Run: older, Existing: true}, nil
		}, existing: true},
		{name: "met its own deposit", owner: func(s engine.Submission) (engine.Accepted, error) {
			return engine.Accepted{Run: s.ID, Existing: true}, nil
		}},
		{name: "invalid", owner: fail(errkind.ErrInvalid), err: errkind.ErrInvalid},
		{name: "conflict", owner: fail(errkind.ErrConflict), err: errkind.ErrConflict},
		{name: "busy", owner: fail(errkind.ErrBusy), err: errkind.ErrBusy},
		{name: "full", owner: fail(errkind.ErrFull), err: errkind.ErrFull},
		{name: "the owner cannot", owner: fail(errkind.ErrUnavailable), deposits: 1},
		{name: "the shard has moved on", owner: fail(&errkind.Elsewhere{Shard: 3}), deposits: 1},
		{name: "the owner panics", owner: func(engine.Submission) (engine.Accepted, error) { panic(http.ErrAbortHandler) }, deposits: 1},
		{name: "the owner does not listen", deposits: 1},
		{name: "nobody owns the shard", nobody: true, deposits: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			far := httptest.NewServer(callsOf(&village{}, &desk{answer: c.owner}))
			defer far.Close()
			if c.owner == nil {
				far.Close()
			}
			near := &desk{}
			dir := &village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL, Name: "far"}}
			if c.nobody {
				dir.owner = store.Member{}
			}
			k := NewClient(NewCaller(nil, "", nil), dir, near, slog.New(slog.DiscardHandler))
			sub := engine.Submission{Workflow: store.Workflow{ID: 7, Name: "w"}, Version: 2, Key: "k", KeyHash: []byte{1}, Params: []byte(`{"a":"ä"}`), User: "ada"}
			a, err := k.Submit(t.Context(), 3, sub)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Fatalf("%+v, %v", a, err)
			}
			if err != nil && !strings.Contains(err.Error(), "because") {
				t.Errorf("the owner's words are lost: %v", err)
			}
			if len(near.deposited) != c.deposits || a.Existing != c.existing || err == nil && a.Run.IsZero() {
				t.Errorf("%+v, deposited %+v", a, near.deposited)
			}
			for _, d := range near.deposited {
				if d.ID != a.Run || d.Key != "k" || string(d.Params) != `{"a":"ä"}` {
					t.Errorf("deposited %+v", d)
				}
			}
		})
	}
}

// TestSubmitArrivesWhole: every part of a submission reaches the owner.
func TestSubmitArrivesWhole(t *testing.T) {
	var got engine.Submission
	far := httptest.NewServer(callsOf(&village{}, &desk{answer: func(s engine.Submission) (engine.Accepted, error) {
		got = s
		return engine.Accepted{Run: s.ID}, nil
	}}))
	defer far.Close()
	k := NewClient(NewCaller(nil, "", nil), &village{self: store.Member{Handler: 1}, owner: store.Member{Handler: 2, Address: far.URL}}, &desk{}, slog.New(slog.DiscardHandler))
	sub := engine.Submission{ID: engine.NewRunID(), Workflow: store.Workflow{ID: 7, Name: "w", Shard: 4, MaxRuns: 2}, Version: 2, Priority: dag.High,
		Origin: dag.OriginAPI, User: "ada", Key: "k\"\n", KeyHash: []byte{0, 255}, Params: []byte(`{"a":1}`)}
	if _, err := k.Submit(t.Context(), 4, sub); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", sub) {
		t.Errorf("sent %+v, arrived %+v", sub, got)
	}
}
