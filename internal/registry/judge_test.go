package registry_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/registry"
)

// fake is a registry in memory whose sessions do not end by themselves.
type fake struct {
	mu     sync.Mutex // protects following fields
	listed []string
	err    error
	begun  int
}

func (f *fake) set(err error, listed ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err, f.listed = err, listed
}

func (f *fake) Announce(_ context.Context, of registry.Life) (registry.Session, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	f.begun++
	if !slices.Contains(f.listed, of.UUID) {
		f.listed = append(f.listed, of.UUID)
	}
	return f, nil
}

func (f *fake) Probe(context.Context) (int, error) { return len(f.listed), f.err }
func (f *fake) Leave(context.Context) error        { return nil }
func (f *fake) Renew(ctx context.Context) error    { _, err := f.List(ctx); return err }
func (f *fake) List(context.Context) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.listed), f.err
}

var errAway = errors.New("the registry is away")

// TestJudge: a life is gone if it was listed during this session, and has been missing for a while in lists
// that contain the node itself.
func TestJudge(t *testing.T) {
	const ttl = 4 * time.Second
	for name, c := range map[string]struct {
		play func(f *fake)
		gone bool
	}{
		"it is listed":                  {func(f *fake) { f.set(nil, "me", "it") }, false},
		"it is missing":                 {func(f *fake) { f.set(nil, "me") }, true},
		"it is missing for a moment":    {func(f *fake) { time.Sleep(9500 * time.Millisecond); f.set(nil, "me") }, false},
		"the registry is away":          {func(f *fake) { f.set(errAway) }, false},
		"away since it was missing":     {func(f *fake) { f.set(nil, "me"); time.Sleep(7 * time.Second); f.set(errAway) }, false},
		"emptied":                       {func(f *fake) { f.set(nil) }, false},
		"emptied, and it came again":    {func(f *fake) { f.set(nil); time.Sleep(time.Second); f.set(nil, "me", "it") }, false},
		"emptied, and it came and went": {func(f *fake) { f.set(nil, "it"); time.Sleep(2 * time.Second); f.set(nil, "me") }, true},
		"missing, and listed again":     {func(f *fake) { f.set(nil, "me"); time.Sleep(9 * time.Second); f.set(nil, "me", "it") }, false},
		"missing on both sides of an outage": {func(f *fake) {
			f.set(nil, "me")
			time.Sleep(time.Second / 2)
			f.set(errAway)
			time.Sleep(9 * time.Second)
			f.set(nil, "me")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{listed: []string{"it"}}
				j := registry.NewJudge(registry.Config{Registry: f, TTL: ttl})
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { j.Run(ctx, func() (string, string) { return "me", "n1" }) })
				time.Sleep(2 * time.Second)
				if j.Gone("it") || j.Gone("other") {
					t.Error("gone at the start")
				}
				end := time.Now().Add(10 * time.Second)
				c.play(f)
				time.Sleep(time.Until(end))
				if is := j.Gone("it"); is != c.gone {
					t.Errorf("gone: %v, want %v", is, c.gone)
				}
				if j.Gone("other") {
					t.Error("a life that was never listed is gone")
				}
				stop()
				wg.Wait()
			})
		})
	}
}

// TestJudgeFollowsLife: a node with a new handler has a session of its own.
func TestJudgeFollowsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var mu sync.Mutex
		life := "one"
		j := registry.NewJudge(registry.Config{Registry: f, TTL: 4 * time.Second})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { j.Run(ctx, func() (string, string) { mu.Lock(); defer mu.Unlock(); return life, "n1" }) })
		time.Sleep(2 * time.Second)
		mu.Lock()
		life = "two"
		mu.Unlock()
		time.Sleep(2 * time.Second)
		stop()
		wg.Wait()
		if f.begun != 2 || !slices.Contains(f.listed, "two") {
			t.Errorf("%d sessions, %v", f.begun, f.listed)
		}
	})
}

// TestNoRegistry: a nil judge judges no member.
func TestNoRegistry(t *testing.T) {
	var s registry.Settings
	j := s.Judge(0, nil)
	j.Run(t.Context(), nil)
	if j.Gone("it") || j.Quick() != 0 {
		t.Error("no registry says something")
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"etcd://h1:2379,h2:2379/skein":             "etcd://h1:2379,h2:2379/skein",
		"etcd://h1":                                "etcd://h1:2379/skein",
		"zookeepers://h1,[::1]:99/a/b/?ttl=10s":    "zookeepers://h1:2181,[::1]:99/a/b",
		"etcds://h1/x?user=u&ca=/c&cert=/d&key=/e": "etcds://h1:2379/x",
		"etcd://127.0.0.1:1/x?user=u":              "etcd://127.0.0.1:1/x",
	} {
		s, err := registry.Parse(text)
		if err != nil || s.Where() != want {
			t.Errorf("%s: %s, %v", text, s.Where(), err)
		}
	}
	for _, text := range []string{"etcd", "consul://h1", "etcd://", "etcd://u:p@h1", "etcd://h1/x?user=u", "etcd://h1/a//b", "etcd://h1/../b", "etcd://h1/x?ttl=1s", "etcd://h1/x?ttl=2m",
		"etcd://h1/x?password=p", "etcds://h1/x?cert=/a", "etcd://h1/x?ca=/a", "etcd://h1,,h2/x", "etcd://h1/a b"} {
		if s, err := registry.Parse(text); err == nil {
			t.Errorf("%s is taken: %+v", text, s)
		}
	}
}

// hanging is a registry that answers no call while it hangs.
type hanging struct {
	fake
	hangs chan struct{} // closed when the registry answers again
}

func (h *hanging) List(ctx context.Context) ([]string, error) {
	select {
	case <-h.hangs:
		return h.fake.List(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *hanging) Renew(ctx context.Context) error { _, err := h.List(ctx); return err }

// TestHangDelaysNothing: while the registry hangs, the judge answers at once, and no life is gone. Later it
// judges again.
func TestHangDelaysNothing(t *testing.T) {
	const ttl = 4 * time.Second
	synctest.Test(t, func(t *testing.T) {
		f := &hanging{hangs: make(chan struct{})}
		f.set(nil, "self", "other")
		j := registry.NewJudge(registry.Config{Registry: f, TTL: ttl})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { j.Run(ctx, func() (uuid, name string) { return "self", "n1" }) })
		for range 100 {
			began := time.Now()
			if j.Gone("other") || time.Since(began) != 0 {
				t.Fatalf("a hanging registry: an answer after %v", time.Since(began))
			}
			time.Sleep(ttl / 10)
		}
		close(f.hangs)
		time.Sleep(3 * ttl)
		f.set(nil, "self")
		time.Sleep(3 * ttl)
		if !j.Gone("other") {
			t.Error("the judge does not notice a life that is gone")
		}
		cancel()
		running.Wait()
	})
}

// TestLongOutage checks that an outage is reported once it has lasted for the patience of the node, counted
// without interruption, and never without a patience.
func TestLongOutage(t *testing.T) {
	for name, c := range map[string]struct {
		patience time.Duration
		play     func(f *fake)
		lost     bool
	}{
		"longer than the patience": {20 * time.Second, func(f *fake) { f.set(errAway); time.Sleep(25 * time.Second) }, true},
		"away from the start":      {20 * time.Second, func(*fake) { time.Sleep(25 * time.Second) }, true},
		"shorter":                  {20 * time.Second, func(f *fake) { f.set(errAway); time.Sleep(17 * time.Second) }, false},
		"twice, and each shorter": {20 * time.Second, func(f *fake) {
			for range 2 {
				f.set(errAway)
				time.Sleep(17 * time.Second)
				f.set(nil, "me")
				time.Sleep(5 * time.Second)
			}
		}, false},
		"without a patience": {0, func(f *fake) { f.set(errAway); time.Sleep(time.Hour) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{}
				if name == "away from the start" {
					f.set(errAway)
				}
				j := registry.NewJudge(registry.Config{Registry: f, TTL: 4 * time.Second, Patience: c.patience})
				ctx, stop := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { j.Run(ctx, func() (string, string) { return "me", "n1" }) })
				time.Sleep(5 * time.Second)
				c.play(f)
				stop()
				wg.Wait()
				select {
				case err := <-j.Lost():
					if !c.lost || !errors.Is(err, errAway) {
						t.Errorf("reported: %v", err)
					}
				default:
					if c.lost {
						t.Error("not reported")
					}
				}
			})
		})
	}
}
