package oversee_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/monitor"
	"skein.dev/skein/internal/oversee"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// station is the surroundings of an overseer.
type station struct {
	*memory.Store
	o       *oversee.Overseer
	peers   *monitor.Monitor
	owns    bool
	members []store.Member
	shards  []store.ShardRow
	fresh   []store.Audit
	away    error // error of the list of members
	reports map[string]monitor.Report
	seen    []string // the findings of the last observation that stand, with their subjects
	unknown map[alert.Event]bool
	looks   int
	observe func(*alert.ClusterRules, *alert.Findings)
}

func (s *station) AuditFresh(context.Context, int) ([]store.Audit, error) { return s.fresh, nil }

func newStation(t *testing.T) *station {
	s := &station{Store: memory.New(memory.Options{Shards: 2}), owns: true, reports: map[string]monitor.Report{}}
	t.Cleanup(func() { _ = s.Close() })
	for i, name := range []string{"a", "b", "c"} {
		s.members = append(s.members, store.Member{Handler: dag.HandlerID(i + 1), Name: name})
		s.reports[name] = monitor.Report{Node: name, Ready: true, DiskFree: 50, DiskTotal: 100, Skewed: true, Backup: time.Now()}
	}
	s.shards = []store.ShardRow{{ID: 0, Owner: 1}, {ID: 1, Owner: 2}}
	s.peers = monitor.New(monitor.Config{Self: func() store.Member { return s.members[0] }, View: func() []store.Member { return s.members },
		Call: func(_ context.Context, to store.Member, _ string, _, answer any) error {
			r, answers := s.reports[to.Name]
			if !answers {
				return errors.New("no route")
			}
			*answer.(*monitor.Report) = r
			return nil
		},
		Clock: s.Clock, Log: slog.New(slog.DiscardHandler),
		Look: func(r *monitor.Report) {
			is := s.reports["a"]
			r.Stuck, r.DiskFree, r.DiskTotal, r.Expires, r.Backup, r.Unserved = is.Stuck, is.DiskFree, is.DiskTotal, is.Expires, is.Backup, is.Unserved
		}})
	s.o = oversee.New(oversee.Config{Store: s, Owns: func(dag.ShardID) bool { return s.owns }, Peers: s.peers, Log: slog.New(slog.DiscardHandler),
		Members: func(context.Context) ([]store.Member, []store.ShardRow, error) { return s.members, s.shards, s.away },
		Queues: func(context.Context) (map[string]time.Duration, error) {
			return map[string]time.Duration{"slow": time.Hour, "quick": time.Second}, nil
		},
		Observe: func(_ context.Context, rules *alert.ClusterRules, f *alert.Findings) error {
			s.observe(rules, f)
			return nil
		}})
	s.observe = s.note
	return s
}

// note records the findings.
func (s *station) note(rules *alert.ClusterRules, f *alert.Findings) {
	s.looks++
	s.seen, s.unknown = nil, f.Unknown
	all, stays := rules.Standing(f)
	for _, n := range all {
		s.seen = append(s.seen, strings.TrimSpace(string(n.Finding.Event)+" "+n.Finding.Subject))
	}
	for key := range stays {
		s.seen = append(s.seen, "stays "+strings.TrimSpace(key))
	}
	slices.Sort(s.seen)
}

func (s *station) rules(t *testing.T, version int64, on ...alert.Event) {
	t.Helper()
	data := `{"rules":[]}`
	if len(on) > 0 {
		data = fmt.Sprintf(`{"rules":[{"name":"r","on":["%s"],"to":["ops"],"severity":"error"}]}`, strings.Join(texts(on), `","`))
	}
	if _, err := s.PutAlertRules(t.Context(), store.AlertRules{Namespace: store.SystemNamespace, Version: version, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func texts(on []alert.Event) (all []string) {
	for _, e := range on {
		all = append(all, string(e))
	}
	return all
}

func (s *station) look(t *testing.T, want ...string) {
	t.Helper()
	s.peers.Round(t.Context())
	if err := s.o.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.seen, want) {
		t.Errorf("found %q, want %q", s.seen, want)
	}
}

// TestOversee checks how each condition is measured.
func TestOversee(t *testing.T) {
	s := newStation(t)
	s.look(t)
	if s.look(t); s.looks != 1 {
		t.Errorf("without rules the overseer observed %d times, want 1", s.looks)
	}
	var all []alert.Event
	for _, e := range alert.ClusterEvents() {
		all = append(all, alert.Event(e))
	}
	s.rules(t, 1, all...)
	s.look(t, "queue_old slow")

	for i, name := range []string{"gone", "w", "b"} { // the node b has come back
		h, err := s.Register(t.Context(), "01900000-0000-7000-8000-00000000000"+fmt.Sprint(i), name)
		if err != nil {
			t.Fatal(err)
		}
		m := store.Member{Handler: h.ID, UUID: h.UUID, Name: name, Worker: name == "w", State: store.MemberActive}
		if err := errors.Join(s.Join(t.Context(), m), s.Lose(t.Context(), h.ID)); err != nil {
			t.Fatal(err)
		}
	}
	s.look(t, "node_lost gone", "queue_old slow", "worker_lost w")

	s.away = errors.New("the database is away")
	s.look(t, "queue_old slow")
	if !s.unknown[alert.NodeLost] || !s.unknown[alert.ShardUnowned] || s.unknown[alert.DiskLow] {
		t.Errorf("unknown: %v", s.unknown)
	}
	s.away = nil
	s.rules(t, 2, alert.ShardUnowned, alert.DiskLow, alert.CertificateEnds, alert.ClockSkew, alert.NodeStuck, alert.BackupOld, alert.NodeUnreachable, alert.NoWorker, alert.AuditBehind)
	s.shards[1].Owner = 77
	b := s.reports["b"]
	b.DiskFree, b.Expires, b.Skew, b.Stuck, b.Unserved = 5, time.Now().Add(time.Hour), -time.Minute, time.Minute, 3
	s.reports["b"] = b
	s.fresh = []store.Audit{{At: 1}}
	for name, r := range s.reports {
		r.Backup = time.Now().Add(-100 * time.Hour)
		s.reports[name] = r
	}
	s.look(t, "audit_behind", "backup_old", "certificate_expiring b", "clock_skew b", "disk_low b", "node_stuck b", "stays r no_worker", "stays r shard_unowned")

	delete(s.reports, "c")
	s.look(t, "audit_behind", "certificate_expiring b", "clock_skew b", "disk_low b", "node_stuck b", "stays r no_worker", "stays r shard_unowned")
	s.look(t, "audit_behind", "certificate_expiring b", "clock_skew b", "disk_low b", "node_stuck b", "node_unreachable c", "stays r no_worker", "stays r shard_unowned")
	if !s.unknown[alert.BackupOld] || !s.unknown[alert.NoWorker] {
		t.Errorf("c does not answer, and unknown are %v", s.unknown)
	}
	s.owns = false
	looks := s.looks
	if err := s.o.Look(t.Context()); err != nil || s.looks != looks {
		t.Errorf("a node that does not own the first shard observed: %v", err)
	}
	s.owns = true
	s.rules(t, 3)
	s.look(t)
}

// TestSourceDown: a source that has been away for five minutes is found, and its alert stays while a node does
// not answer.
func TestSourceDown(t *testing.T) {
	s := newStation(t)
	s.rules(t, 1, alert.SourceDown)
	b := s.reports["b"]
	b.Sources = []monitor.Away{{Trigger: "shop/orders/new", Since: time.Now().Add(-6 * time.Minute)}, {Trigger: "shop/orders/young", Since: time.Now()}}
	s.reports["b"] = b
	s.look(t, "source_down shop/orders/new")
	delete(s.reports, "b")
	s.look(t)
	if !s.unknown[alert.SourceDown] {
		t.Error("a node does not answer, and its sources count as back")
	}
}

// TestOverseeAfterStart: an owner that has not called the nodes yet knows nothing about them. So it opens no
// incident about a missing backup, and ends no incident about the nodes.
func TestOverseeAfterStart(t *testing.T) {
	s := newStation(t)
	s.rules(t, 1, alert.BackupOld, alert.DiskLow, alert.NodeUnreachable)
	a := s.reports["a"]
	a.Backup = time.Time{}
	s.reports["a"] = a
	var kept []string
	observe := s.observe
	s.observe = func(rules *alert.ClusterRules, f *alert.Findings) {
		observe(rules, f)
		kept = nil
		for _, e := range []alert.Event{alert.BackupOld, alert.DiskLow, alert.NodeUnreachable} {
			n := &alert.Incident{Detail: alert.Detail{Last: alert.Happening{Event: e, Subject: "b"}}}
			if f.Kept(n) {
				kept = append(kept, string(e))
			}
		}
	}
	if err := s.o.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := []string{"backup_old", "disk_low", "node_unreachable"}; len(s.seen) > 0 || !slices.Equal(kept, want) {
		t.Errorf("before the first answer found %q, and open stay %q, want %q", s.seen, kept, want)
	}
	if s.look(t); len(kept) > 0 {
		t.Errorf("after all answers, open stay %q", kept)
	}
}

// TestOverseeCutOff checks the findings if the owner itself cannot be reached.
func TestOverseeCutOff(t *testing.T) {
	s := newStation(t)
	s.rules(t, 1, alert.NodeUnreachable)
	b := s.reports["b"]
	b.Unreached = []string{"a"}
	s.reports["b"] = b
	s.look(t, "node_unreachable a")
}

// TestGitFailing: a git source whose newest commit is not in force for ten minutes is found.
func TestGitFailing(t *testing.T) {
	s := newStation(t)
	s.rules(t, 1, alert.GitFailing)
	for name, since := range map[string]time.Duration{"old": 11 * time.Minute, "young": time.Minute, "well": 0} {
		g, err := s.PutGitSource(t.Context(), store.GitSource{Namespace: "shop", Name: name, Version: 1, Spec: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		st := gitsync.State{}
		if since > 0 {
			st.Failing = &gitsync.Failing{Since: time.Now().Add(-since), Why: "no route"}
		}
		if g.State, err = json.Marshal(&st); err != nil {
			t.Fatal(err)
		}
		if err := s.SetGitState(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	s.look(t, "git_failing shop/old")
	s.rules(t, 2, alert.NodeStuck)
	s.look(t)
}
