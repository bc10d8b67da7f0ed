package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// node is a node with triggers. Its engine accepts batches.
type node struct {
	mu       sync.Mutex
	triggers map[string]*store.Trigger
	owned    map[dag.ShardID]bool
	opened   map[string]int
	heard    map[string]int
	full     map[string]bool
	sources  map[string]func() Source
	egress   map[string]string // policy of each namespace
	first    func()            // called before the supervisor runs
}

func (n *node) with(name string, s func() Source) *node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.triggers == nil {
		n.triggers, n.owned, n.opened, n.heard, n.full, n.sources = map[string]*store.Trigger{}, map[dag.ShardID]bool{}, map[string]int{}, map[string]int{}, map[string]bool{}, map[string]func() Source{}
	}
	shard := dag.ShardID(len(n.triggers))
	decl := workflow.Trigger{Name: name, Kind: workflow.KindPoll, Poll: &workflow.Poll{URL: "http://" + name}}
	n.triggers[name] = &store.Trigger{Workflow: 1, Name: name, Shard: shard, Kind: workflow.KindPoll, State: store.TriggerActive, Spec: decl.Encode()}
	n.owned[shard], n.sources[name] = true, s
	return n
}

func (n *node) supervisor() *Supervisor {
	return New(Config{
		Triggers: func(_ context.Context, _ []string, after store.TriggerKey, _ int) (all []store.Trigger, _ error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			for _, t := range n.triggers {
				if t.State == store.TriggerActive && n.owned[t.Shard] && t.Name > after.Name {
					all = append(all, *t)
				}
			}
			return all, nil
		},
		Trigger: func(_ context.Context, _ dag.WorkflowID, name string) (store.Trigger, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return *n.triggers[name], nil
		},
		Owns: func(s dag.ShardID) bool {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.owned[s]
		},
		Open: func(_ context.Context, t *store.Trigger, _ *workflow.Trigger, _ Start) (Source, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.opened[t.Name]++
			return n.sources[t.Name](), nil
		},
		Cursor: func(*store.Trigger) ([]byte, Start, error) { return nil, Start{}, nil },
		Hear: func(_ context.Context, k store.TriggerKey, b Batch) (engine.Taken, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			switch {
			case n.full[k.Name]:
				return engine.Taken{}, engine.ErrGateFull
			case !n.owned[n.triggers[k.Name].Shard]:
				return engine.Taken{}, engine.ErrStale
			}
			n.heard[k.Name] += len(b.Events)
			return engine.Taken{}, nil
		},
		Egress: func(namespace string) string {
			n.mu.Lock()
			defer n.mu.Unlock()
			return n.egress[namespace]
		},
		Name: func(context.Context, dag.WorkflowID) string { return "shop/orders" },
	})
}

func (n *node) count(of map[string]int, name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return of[name]
}

func (n *node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// fake is a source whose Run is a function.
type fake struct {
	pulse
	run func(f *fake, ctx context.Context, give func(context.Context, Batch) error) error
}

func (f *fake) Run(ctx context.Context, _ []byte, give func(context.Context, Batch) error) error {
	return f.run(f, ctx, give)
}

// ticking returns a source that passes on an event each second.
func ticking() Source {
	return &fake{run: func(f *fake, ctx context.Context, give func(context.Context, Batch) error) error {
		for {
			f.answered(0)
			if err := give(ctx, Batch{Events: []Event{{Key: "x"}}}); err != nil {
				return err
			}
			if err := f.wait(ctx, time.Second, nil); err != nil {
				return err
			}
		}
	}}
}

func failing(err error) func() Source {
	return func() Source {
		return &fake{run: func(*fake, context.Context, func(context.Context, Batch) error) error { return err }}
	}
}

// mute returns a source without events. It ends when its context ends.
func mute() Source {
	return &fake{run: func(_ *fake, ctx context.Context, _ func(context.Context, Batch) error) error {
		<-ctx.Done()
		return ctx.Err()
	}}
}

// run runs a supervisor for a time.
func run(t *testing.T, n *node, during func(s *Supervisor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if n.first != nil {
			n.first()
		}
		s := n.supervisor()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		synctest.Wait()
		during(s)
		cancel()
		<-done
	})
}

func (n *node) status(t *testing.T, s *Supervisor, name string) Status {
	t.Helper()
	st, ok := s.State(store.TriggerKey{Workflow: 1, Name: name})
	if !ok {
		t.Fatalf("%s does not run", name)
	}
	return st
}

// TestAway: a source that fails is started again with growing pauses, and the state says since when and why.
func TestAway(t *testing.T) {
	n := new(node).with("good", ticking).with("bad", failing(errors.New("no route\nto host"))).with("later", failing(&LaterError{10 * time.Minute, errors.New("429")})).
		with("panics", func() Source {
			return &fake{run: func(*fake, context.Context, func(context.Context, Batch) error) error { panic("oh") }}
		})
	run(t, n, func(s *Supervisor) {
		began := dag.Micro(time.Now())
		time.Sleep(8 * time.Minute)
		// The source is opened again after 1, 2, 4, 8, 16 and 32 seconds, and then each minute.
		if got := n.count(n.opened, "bad"); got < 12 || got > 15 {
			t.Errorf("%d tries", got)
		}
		if got := n.count(n.opened, "later"); got != 1 {
			t.Errorf("%d tries although it was to wait", got)
		}
		if st := n.status(t, s, "bad"); st.Away != began || st.Why != "no route to host" || st.Lag != -1 || st.Workflow != "shop/orders" || st.Restarts < 11 {
			t.Errorf("%+v", st)
		}
		if st := n.status(t, s, "panics"); !strings.Contains(st.Why, "panicked: oh") {
			t.Errorf("%+v", st)
		}
		if st := n.status(t, s, "good"); st.Away != 0 || st.Restarts != 0 {
			t.Errorf("%+v", st)
		}
		if got := n.count(n.heard, "good"); got < 479 || got > 481 {
			t.Errorf("%d events", got)
		}
		n.change(func() { n.sources["bad"] = ticking })
		time.Sleep(2 * time.Minute)
		if st := n.status(t, s, "bad"); st.Away != 0 || st.Why != "" {
			t.Errorf("back: %+v", st)
		}
		if all := s.All(); len(all) != 4 || all[0].Away == 0 || all[1].Away == 0 || all[3].Away != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// TestSilent: a source that does nothing is started again after 90 s. A source that does not end is
// abandoned, and delays nothing.
func TestSilent(t *testing.T) {
	var never chan struct{} // made by n.first, so that it belongs to the bubble of the test's clock
	var refused atomic.Int64
	n := new(node).with("mute", mute).with("good", ticking).with("hangs", func() Source {
		return &fake{run: func(f *fake, ctx context.Context, give func(context.Context, Batch) error) error {
			<-never
			if err := give(ctx, Batch{Events: []Event{{Key: "late"}}}); err != nil {
				refused.Add(1)
				return err
			}
			return f.wait(ctx, time.Hour, nil)
		}}
	})
	n.first = func() { never = make(chan struct{}) }
	run(t, n, func(s *Supervisor) {
		time.Sleep(80 * time.Second)
		if n.count(n.opened, "mute") != 1 {
			t.Error("started again too early")
		}
		time.Sleep(40 * time.Second)
		for _, name := range []string{"mute", "hangs"} {
			if got := n.count(n.opened, name); got != 2 {
				t.Errorf("%s was started %d times", name, got)
			}
			if st := n.status(t, s, name); !strings.Contains(st.Why, "did nothing") {
				t.Errorf("%s: %+v", name, st)
			}
		}
		if got := n.count(n.heard, "good"); got < 119 {
			t.Errorf("%d events beside a source that hangs", got)
		}
		close(never)
		time.Sleep(time.Minute)
		if refused.Load() != 1 || n.count(n.heard, "hangs") != 1 { // an event of the second source, which was not abandoned yet
			t.Errorf("%d events, %d refused", n.count(n.heard, "hangs"), refused.Load())
		}
	})
}

// TestMoved: a source ends when its shard moves, when its trigger is paused, and when its trigger is declared
// again.
func TestMoved(t *testing.T) {
	n := new(node).with("a", ticking).with("b", ticking)
	run(t, n, func(s *Supervisor) {
		time.Sleep(10*time.Second + time.Millisecond)
		n.change(func() { n.owned[n.triggers["a"].Shard] = false })
		before := n.count(n.heard, "a")
		time.Sleep(20 * time.Second)
		if _, runs := s.State(store.TriggerKey{Workflow: 1, Name: "a"}); runs || n.count(n.heard, "a") > before {
			t.Error("it goes on after its shard has moved")
		}
		n.change(func() { n.owned[n.triggers["a"].Shard], n.triggers["b"].State = true, store.TriggerPaused })
		s.Changed()
		time.Sleep(5 * time.Second)
		paused := n.count(n.heard, "b")
		time.Sleep(20 * time.Second)
		if _, runs := s.State(store.TriggerKey{Workflow: 1, Name: "b"}); runs || n.count(n.heard, "b") > paused {
			t.Error("it goes on although its trigger is paused")
		}
		if n.count(n.heard, "a") < before+20 {
			t.Error("it does not run after its shard has come back")
		}
		opened := n.count(n.opened, "a")
		n.change(func() { n.triggers["a"].Since++ })
		s.Changed()
		time.Sleep(3 * time.Second)
		if got := n.count(n.opened, "a"); got != opened+1 {
			t.Errorf("opened %d times, and then %d", opened, got)
		}
	})
}

// TestNoRoom: while the trigger has no room, the source waits, and is neither silent nor away.
func TestNoRoom(t *testing.T) {
	n := new(node).with("a", ticking)
	n.full["a"] = true
	run(t, n, func(s *Supervisor) {
		time.Sleep(10 * time.Minute)
		if st := n.status(t, s, "a"); st.Away != 0 || st.Restarts != 0 || n.count(n.heard, "a") != 0 {
			t.Errorf("%+v", st)
		}
		n.change(func() { n.full["a"] = false })
		time.Sleep(10 * time.Second)
		if n.count(n.heard, "a") < 4 {
			t.Errorf("%d events", n.count(n.heard, "a"))
		}
	})
}

// TestCollect: events of one run are collected for batch.wait, and not longer.
func TestCollect(t *testing.T) {
	n := new(node).with("a", func() Source {
		began := time.Now()
		return &fake{run: func(f *fake, ctx context.Context, give func(context.Context, Batch) error) error {
			for {
				f.answered(0)
				events := []Event{{Key: "x"}}
				// The first look after a start finds the events that have come meanwhile.
				if time.Since(began) < time.Second {
					events = append(events, Event{Key: "y"})
				}
				if err := give(ctx, Batch{Events: events}); err != nil {
					return err
				}
				if err := f.wait(ctx, time.Minute, nil); err != nil {
					return err
				}
			}
		}}
	})
	decl := workflow.Trigger{Name: "a", Kind: workflow.KindPoll, Poll: &workflow.Poll{URL: "http://a"}, Intake: &workflow.Intake{BatchMax: 5, BatchWait: workflow.Duration(10 * time.Second)}}
	n.triggers["a"].Spec = decl.Encode()
	run(t, n, func(s *Supervisor) {
		time.Sleep(9 * time.Second)
		if n.count(n.heard, "a") != 0 {
			t.Error("taken at once")
		}
		time.Sleep(2 * time.Second)
		if st := n.status(t, s, "a"); n.count(n.heard, "a") != 2 || st.Away != 0 || st.Restarts != 0 {
			t.Errorf("%d events, %+v", n.count(n.heard, "a"), st)
		}
		time.Sleep(time.Minute + 5*time.Second)
		if n.count(n.heard, "a") != 2 {
			t.Error("the second batch was not collected")
		}
		time.Sleep(10 * time.Second)
		if n.count(n.heard, "a") != 4 {
			t.Errorf("%d events", n.count(n.heard, "a"))
		}
	})
}

// TestRoomOfNode: a node runs a bounded number of sources, and the state of the others says so.
func TestRoomOfNode(t *testing.T) {
	n := new(node)
	for i := range runningMax + 2 {
		n.with(fmt.Sprintf("%04d", i), ticking)
	}
	run(t, n, func(s *Supervisor) {
		time.Sleep(3 * time.Second)
		all := s.All()
		waiting := 0
		for i := range all {
			if strings.Contains(all[i].Why, "this node runs 1000 sources") {
				waiting++
			}
		}
		if len(all) != runningMax+2 || waiting != 2 {
			t.Errorf("%d, %d wait", len(all), waiting)
		}
	})
}

// TestHangsDelayNothing: sources that hang, do not end, have no room or fail delay the events of another
// source by at most 100 ms, in the time of the test. The same holds for a hanging source that is declared
// again, and for one whose shard moves.
func TestHangsDelayNothing(t *testing.T) {
	var never chan struct{}
	var late time.Duration
	var given int
	n := new(node)
	good := func() Source {
		return &fake{run: func(f *fake, ctx context.Context, give func(context.Context, Batch) error) error {
			for due := time.Now(); ; {
				f.answered(0)
				if err := give(ctx, Batch{Events: []Event{{Key: "x"}}}); err != nil {
					return err
				}
				n.change(func() { given, late = given+1, max(late, time.Since(due)) })
				due = due.Add(time.Second)
				if err := f.wait(ctx, time.Until(due), nil); err != nil {
					return err
				}
			}
		}}
	}
	stuck := func() Source { // does not end with its context
		return &fake{run: func(*fake, context.Context, func(context.Context, Batch) error) error { <-never; return nil }}
	}
	n.with("good", good).with("mute", mute).with("stuck", stuck).with("moves", stuck).with("full", ticking).with("fails", failing(errors.New("refused")))
	n.full["full"] = true
	n.first = func() { never = make(chan struct{}) }
	run(t, n, func(s *Supervisor) {
		time.Sleep(time.Minute)
		n.change(func() {
			n.triggers["stuck"].Since++
			n.owned[n.triggers["moves"].Shard] = false
		})
		n.with("new", good)
		s.Changed()
		time.Sleep(2 * time.Minute)
		close(never)
		if given < 180+119 || late > 100*time.Millisecond {
			t.Errorf("%d events, the latest %s after its time", given, late)
		}
	})
}

// TestEgressChanges: when the policy of a namespace changes, its running sources end and are opened again. A
// source whose batch waits for room ends, too. Such an end is no absence.
func TestEgressChanges(t *testing.T) {
	n := new(node).with("idle", mute).with("busy", func() Source {
		return &fake{run: func(_ *fake, ctx context.Context, give func(context.Context, Batch) error) error {
			return give(ctx, Batch{Events: []Event{{Key: "x"}}})
		}}
	})
	n.full["busy"] = true
	run(t, n, func(s *Supervisor) {
		opened := func(want int) {
			t.Helper()
			for _, name := range []string{"idle", "busy"} {
				if got, st := n.count(n.opened, name), n.status(t, s, name); got != want || st.Away != 0 {
					t.Errorf("%s was opened %d times, want %d: %+v", name, got, want, st)
				}
			}
		}
		time.Sleep(time.Minute)
		opened(1)
		n.change(func() { n.egress = map[string]string{"shop": "public", "web": "any"} })
		time.Sleep(3 * time.Second)
		opened(2)
		n.change(func() { n.egress["web"] = "public" })
		time.Sleep(time.Minute)
		opened(2)
	})
}
