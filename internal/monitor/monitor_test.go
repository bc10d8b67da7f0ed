package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric/metrictest"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/store"
)

// village is a cluster whose links a test cuts.
type village struct {
	members []store.Member
	all     map[string]*monitor.Monitor
	cut     map[string]bool // "a>b": calls of a do not reach b
	unready map[string]string
	calls   map[string]int
	log     strings.Builder
}

func newVillage(names ...string) *village {
	v := &village{all: map[string]*monitor.Monitor{}, cut: map[string]bool{}, unready: map[string]string{}, calls: map[string]int{}}
	for i, name := range names {
		m := store.Member{Handler: dag.HandlerID(i + 1), Name: name, Version: "v1", Beat: 1, Address: "http://" + name}
		v.members = append(v.members, m)
		v.all[name] = monitor.New(monitor.Config{
			Self: func() store.Member { return m }, View: func() []store.Member { return v.members },
			Call: func(_ context.Context, to store.Member, path string, _, answer any) error {
				return v.call(name, to.Name, path, answer)
			},
			Clock:  func(context.Context) (dag.Micros, error) { return dag.Micro(time.Now().Add(-time.Minute)), nil },
			Look:   func(r *monitor.Report) { r.Why = v.unready[name]; r.Ready = r.Why == "" },
			Jitter: func(time.Duration) time.Duration { return 0 },
			Log:    slog.New(slog.NewTextHandler(&v.log, nil)),
		})
	}
	return v
}

// call is one call over the node channel.
func (v *village) call(from, to, path string, answer any) error {
	if v.cut[from+">"+to] {
		return errors.New("no route to " + to)
	}
	mux := http.NewServeMux()
	v.all[to].Handle(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, http.NoBody))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, answer)
}

func (v *village) round(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		v.all[name].Round(t.Context())
	}
}

// states lists what a node sees, as "b=reached c=unreachable".
func (v *village) states(name string) string {
	var all []string
	for _, s := range v.all[name].Sights() {
		all = append(all, s.Node+"="+s.State())
	}
	return strings.Join(all, " ")
}

// TestPeers: if a node is cut off from one peer but not from the database, the monitors report it, whichever
// direction is cut. What a monitor sees changes no member.
func TestPeers(t *testing.T) {
	v := newVillage("a", "b", "c")
	v.members = append(v.members, store.Member{Handler: 9, Name: "w", Worker: true})
	v.round(t, "a", "b", "c")
	for name, want := range map[string]string{"a": "b=reached c=reached", "b": "a=reached c=reached", "c": "a=reached b=reached"} {
		if got := v.states(name); got != want {
			t.Errorf("%s sees %s, want %s", name, got, want)
		}
	}
	v.cut["a>b"] = true
	v.unready["c"] = "the disk is full"
	v.round(t, "a", "b", "c")
	if got := v.states("a"); got != "b=reached c=unready" {
		t.Errorf("after one failed call a sees %s", got)
	}
	v.round(t, "a", "b", "c")
	if got := v.states("a"); got != "b=unreachable c=unready" {
		t.Errorf("a sees %s", got)
	}
	if got := v.states("b"); got != "a=reached c=unready" {
		t.Errorf("b sees %s", got)
	}
	if got := v.all["b"].CutBy(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("b knows that it is cut off by %v, want a", got)
	}
	if log := v.log.String(); strings.Count(log, "peer_not_reached") != 1 || strings.Count(log, "peer_cut_off") != 1 {
		t.Errorf("the log: %s", log)
	}
	page := metrictest.Read(t, v.all["a"].Show)
	for name, want := range map[string]float64{`peers{state="unreachable"}`: 1, `peers{state="unready"}`: 1, `peers{state="reached"}`: 0, "peers_cut_off_by": 0} {
		if got, shown := page[name]; !shown || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	delete(v.cut, "a>b")
	v.round(t, "a", "b", "c")
	v.round(t, "b")
	if got, by := v.states("a"), v.all["b"].CutBy(); got != "b=reached c=unready" || len(by) != 0 {
		t.Errorf("after the repair a sees %s, and b is cut off by %v", got, by)
	}
	v.members = v.members[:2] // c has left
	if v.round(t, "a"); v.states("a") != "b=reached" {
		t.Errorf("a still sees %s", v.states("a"))
	}
	if r := v.all["a"].Self(); !r.Skewed || r.Skew < 59*time.Second || r.Skew > 61*time.Second {
		t.Errorf("the clock of a is %v ahead of the database, want a minute", r.Skew)
	}
}

// TestManyPeers: a round asks a bounded number of peers, and the rounds take turns.
func TestManyPeers(t *testing.T) {
	asked := map[string]int{}
	var members []store.Member
	for i := range 150 {
		members = append(members, store.Member{Handler: dag.HandlerID(i + 1), Name: fmt.Sprintf("n%03d", i)})
	}
	calls := make(chan string, 1000)
	m := monitor.New(monitor.Config{
		Self: func() store.Member { return members[0] }, View: func() []store.Member { return members },
		Call: func(_ context.Context, to store.Member, _ string, _, _ any) error {
			calls <- to.Name
			return nil
		},
		Clock: func(context.Context) (dag.Micros, error) { return 0, errors.New("away") }, Look: func(*monitor.Report) {},
		Log: slog.New(slog.DiscardHandler),
	})
	for range 3 {
		m.Round(t.Context())
		n := 0
		for len(calls) > 0 {
			asked[<-calls]++
			n++
		}
		if n != 64 {
			t.Errorf("a round asked %d peers, want 64", n)
		}
	}
	if len(asked) != 149 {
		t.Errorf("three rounds asked %d of 149 peers", len(asked))
	}
}

// refusal is the answer of a peer that does not have a call.
type refusal struct{ error }

func (refusal) Status() int { return http.StatusNotFound }

// TestPeersOfAnotherVersion: a peer of an earlier version, which does not have the call, is not unreachable. A
// peer of the same version is.
func TestPeersOfAnotherVersion(t *testing.T) {
	members := []store.Member{{Handler: 1, Name: "a", Version: "v2"}, {Handler: 2, Name: "b", Version: "v1"}, {Handler: 3, Name: "c", Version: "v2"}}
	var log strings.Builder
	m := monitor.New(monitor.Config{Self: func() store.Member { return members[0] }, View: func() []store.Member { return members },
		Call:  func(context.Context, store.Member, string, any, any) error { return refusal{errors.New("404")} },
		Clock: func(context.Context) (dag.Micros, error) { return 0, nil }, Look: func(*monitor.Report) {}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 3 {
		m.Round(t.Context())
	}
	for i, want := range []string{monitor.StateUnknown, monitor.StateUnreachable} {
		if s := m.Sights()[i]; s.State() != want || s.Reached || s.Error == "" {
			t.Errorf("%s is %s, want %s: %+v", s.Node, s.State(), want, s)
		}
	}
	if n := strings.Count(log.String(), "peer_not_reached"); n != 1 {
		t.Errorf("%d peers are told as unreachable, want 1: %s", n, log.String())
	}
}
