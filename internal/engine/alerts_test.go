package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// watched is a definition with one rule.
func watched(on string) []byte {
	return fmt.Appendf(nil, `{"alerts":[{"name":"r","on":[%s],"to":["ops","mail"],"severity":"error"}]}`, on)
}

// applyWatched makes a workflow of one task with a definition.
func (n *node) applyWatched(name string, def []byte) store.Workflow {
	n.t.Helper()
	g := graph(n.t, "a")
	w, _, err := n.Apply(n.t.Context(), engine.Definition{Namespace: "test", Name: name, Graph: g.Pack(), Def: def, Digest: def, User: "ada"})
	if err != nil {
		n.t.Fatal(err)
	}
	return w
}

// incidents describes all incidents, the oldest first: "STATE COUNT", and the notices by kind and channel.
func incidents(t testing.TB, st store.Store) string {
	t.Helper()
	rows, err := st.Incidents(context.Background(), store.IncidentQuery{Over: true, Counting: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := len(rows) - 1; i >= 0; i-- {
		is, err := alert.Read(rows[i])
		if err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprintf("%s %d", is.State, is.Detail.Count)
		notices, err := st.Notices(context.Background(), is.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range notices {
			var body alert.Notice
			if err := json.Unmarshal(n.Data, &body); err != nil {
				t.Fatal(err)
			}
			said += fmt.Sprintf(" %s:%s", body.Kind, n.Channel)
		}
		all = append(all, said)
	}
	return strings.Join(all, ", ")
}

func wantIncidents(t testing.TB, st store.Store, want string) {
	t.Helper()
	if got := incidents(t, st); got != want {
		t.Errorf("incidents are %q, want %q", got, want)
	}
}

// alerted starts an engine whose tasks fail while failing is true.
func alerted(t *testing.T, st store.Store, failing *atomic.Bool, change ...func(*engine.Config)) *node {
	h := newHands(t)
	h.result = func(engine.Assignment) dag.Result {
		if failing.Load() {
			return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
		}
		return dag.Result{State: dag.AttemptSucceeded, Exited: true}
	}
	return start(t, st, h, append(change, func(c *engine.Config) { c.Rules = alert.Rules })...)
}

const (
	toldOpened   = " opened:mail opened:ops"
	toldResolved = " resolved:mail resolved:ops"
)

// TestIncidents follows an incident through several processes of a node.
func TestIncidents(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			var failing atomic.Bool
			var noticed atomic.Int32
			failing.Store(true)
			n := alerted(t, st, &failing, func(c *engine.Config) { c.Noticed = func() { noticed.Add(1) } })
			wf := n.applyWatched("w", watched(`"failed"`))
			plain := n.applyWatched("plain", []byte(`{}`))
			n.ends(n.submit(plain), dag.RunFailed)
			wantIncidents(t, st, "")
			before := noticed.Load()
			n.ends(n.submit(wf), dag.RunFailed)
			n.quiet()
			wantIncidents(t, st, "open 1"+toldOpened)
			if noticed.Load() == before {
				t.Error("the sender was not notified")
			}
			n.ends(n.submit(wf, func(s *engine.Submission) { s.Origin = dag.OriginBackfill }), dag.RunFailed)
			n.ends(n.submit(wf), dag.RunFailed)
			n.quiet()
			n.close()
			n = alerted(t, st, &failing)
			n.ends(n.submit(wf), dag.RunFailed)
			n.quiet()
			wantIncidents(t, st, "open 3"+toldOpened)
			failing.Store(false)
			n.ends(n.submit(wf), dag.RunSucceeded)
			n.quiet()
			wantIncidents(t, st, "resolved 3"+toldOpened+toldResolved)
		})
	}
}

// TestGroupedIncidents: many failures of a rule with groups are one message for each group and channel, with
// exact counts, also over a restart. An incident has at most one row in a transaction.
func TestGroupedIncidents(t *testing.T) {
	for name, open := range openers {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			want := func(state string) { // the incidents of one transaction are in any order
				t.Helper()
				got := strings.Split(incidents(t, st), ", ")
				slices.Sort(got)
				if is := strings.Join(got, ", "); is != state {
					t.Errorf("incidents are %q, want %q", is, state)
				}
			}
			var failing atomic.Bool
			failing.Store(true)
			n := alerted(t, st, &failing)
			wf := n.applyWatched("w", []byte(`{"alerts":[{"name":"r","on":["failed"],"to":["ops"],"group_by":["tag:team"],"severity":"error"}]}`))
			submit := func(team string) dag.RunID {
				return n.submit(wf, func(s *engine.Submission) { s.Tags = dag.Tags("team=" + team) })
			}
			var runs []dag.RunID
			for i := range 40 {
				runs = append(runs, submit([]string{"a", "b", "c", "d"}[i%4]))
			}
			for _, id := range runs {
				n.ends(id, dag.RunFailed)
			}
			n.quiet()
			want("open 10 opened:ops" + strings.Repeat(", open 10 opened:ops", 3))
			n.close()
			n = alerted(t, st, &failing)
			n.ends(submit("a"), dag.RunFailed)
			failing.Store(false)
			n.ends(submit("a"), dag.RunSucceeded)
			n.quiet()
			want(strings.Repeat("open 10 opened:ops, ", 3) + "resolved 11 opened:ops resolved:ops")
			n.applyWatched("w", watched(`"failed"`)) // a rule of the same name without groups
			n.quiet()
			want(strings.Repeat("resolved 10 opened:ops resolved:ops, ", 3) + "resolved 11 opened:ops resolved:ops")
		})
	}
}

// TestIncidentsOfPeople: people can acknowledge and resolve open incidents only.
func TestIncidentsOfPeople(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	failing.Store(true)
	n := alerted(t, st, &failing)
	wf := n.applyWatched("w", watched(`"failed"`))
	n.ends(n.submit(wf), dag.RunFailed)
	n.quiet()
	rows, err := st.Incidents(t.Context(), store.IncidentQuery{Limit: 9})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	all := engine.NewIncidents(n.Engine)
	ack, resolve := engine.IncidentChange{Actor: "ann"}, engine.IncidentChange{Actor: "ann", Resolve: true, Reason: "known"}
	for _, c := range []engine.IncidentChange{ack, ack, resolve} {
		if err := all.Change(t.Context(), rows[0].ID, c); err != nil {
			t.Fatal(err)
		}
	}
	n.quiet()
	wantIncidents(t, st, "resolved 1"+toldOpened+toldResolved)
	for _, c := range []engine.IncidentChange{ack, resolve} {
		if err := all.Change(t.Context(), rows[0].ID, c); !errors.Is(err, errkind.ErrConflict) {
			t.Errorf("a change of what is over: %v", err)
		}
	}
	if err := all.Change(t.Context(), [16]byte{1}, ack); !errors.Is(err, errkind.ErrNotFound) {
		t.Errorf("a change of nothing: %v", err)
	}
}

// TestIncidentsOfLostRules: an edit or a deletion of the workflow closes the incidents that no run can
// resolve.
func TestIncidentsOfLostRules(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	failing.Store(true)
	n := alerted(t, st, &failing)
	for _, name := range []string{"edited", "deleted", "same"} {
		n.ends(n.submit(n.applyWatched(name, watched(`"failed"`))), dag.RunFailed)
	}
	n.quiet()
	n.applyWatched("edited", []byte(`{"alerts":[{"name":"other","on":["failed"],"to":["ops"]}]}`))
	n.applyWatched("same", watched(`"failed","missed"`))
	if _, err := n.SetState(t.Context(), n.named("deleted"), store.WorkflowDeleted, 0, nil); err != nil {
		t.Fatal(err)
	}
	n.quiet()
	wantIncidents(t, st, "resolved 1"+toldOpened+toldResolved+", resolved 1"+toldOpened+toldResolved+", open 1"+toldOpened)
}

// TestAlertsOfDeleted: a run that fails after its workflow was deleted opens no incident, because no run
// could resolve it. An incident that an earlier version of the program has left open is closed.
func TestAlertsOfDeleted(t *testing.T) {
	st := openMemory(t)
	var failing atomic.Bool
	failing.Store(true)
	n := alerted(t, st, &failing)
	left, late := n.applyWatched("left", watched(`"failed"`)), n.applyWatched("late", watched(`"failed"`))
	n.ends(n.submit(left), dag.RunFailed)
	n.quiet()
	wantIncidents(t, st, "open 1"+toldOpened)
	n.close()
	h := newHands(t)
	h.drop = func() bool { return true } // the attempts are lost
	older := start(t, st, h)             // an engine without alerts
	ids := []dag.RunID{older.submit(left), older.submit(late)}
	for _, name := range []string{"left", "late"} {
		if _, err := older.SetState(t.Context(), older.named(name), store.WorkflowDeleted, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	wantIncidents(t, st, "open 1"+toldOpened)
	older.close()
	n = alerted(t, st, &failing)
	for _, id := range ids {
		n.ends(id, dag.RunFailed)
	}
	n.quiet()
	wantIncidents(t, st, "resolved 1"+toldOpened+toldResolved)
}

// unreadVersions is a store whose versions cannot be read while err is set.
type unreadVersions struct {
	store.Store
	err   atomic.Pointer[error]
	reads atomic.Int32 // the number of reads that failed
	once  atomic.Bool  // the next transaction is refused
}

// Commit implements store.Store.
func (u *unreadVersions) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	if u.once.Swap(false) {
		return 0, fmt.Errorf("a test: %w", store.ErrRefused)
	}
	return u.Store.Commit(ctx, b)
}

// Watched implements store.Alerts: the list of all rules cannot be read either.
func (u *unreadVersions) Watched(context.Context, []dag.ShardID) ([]store.Watched, error) {
	return nil, fmt.Errorf("%w: a version is cut off", store.ErrCorrupt)
}

func (u *unreadVersions) Version(ctx context.Context, id dag.WorkflowID, version int32) (store.Version, error) {
	if err := u.err.Load(); err != nil {
		u.reads.Add(1)
		return store.Version{}, *err
	}
	return u.Store.Version(ctx, id, version)
}

// TestAlertsOfUnreadVersions: a run ends although the rules of its workflow cannot be read.
func TestAlertsOfUnreadVersions(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		reads int32 // the least number of reads, after the rules are forgotten, and until two runs have ended
	}{
		"corrupt":   {fmt.Errorf("%w: its definition is cut off", store.ErrCorrupt), 1},
		"not found": {store.ErrNotFound, 1},
		"other":     {errors.New("the row has a wrong type"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unreadVersions{Store: openMemory(t)}
			var failing atomic.Bool
			failing.Store(true)
			n := alerted(t, u, &failing)
			wf := n.applyWatched("w", watched(`"failed"`))
			n.close()
			h := newHands(t)
			h.held = true
			n = start(t, u, h, func(c *engine.Config) { c.Rules = alert.Rules })
			n.submit(wf)
			n.submit(wf)
			held := h.holding(2)
			u.err.Store(&c.err)
			u.once.Store(true)
			for _, k := range held {
				h.end(k, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1})
				n.ends(k.run, dag.RunFailed)
			}
			if got := u.reads.Load(); got < c.reads || got > 4*c.reads {
				t.Errorf("the version was read %d times, want %d", got, c.reads)
			}
			u.err.Store(nil)
			n.quiet()
			wantIncidents(t, u, "")
		})
	}
}

// TestAlertsCrashAtEveryCommit: whenever the process dies while a run fails, and while another one succeeds,
// each transition has its notices, and no notice comes twice.
func TestAlertsCrashAtEveryCommit(t *testing.T) {
	for name, c := range map[string]struct {
		fails bool // whether the run, which is started repeatedly, fails
		want  string
	}{
		"opens":    {true, "open 2" + toldOpened},
		"resolves": {false, "resolved 1" + toldOpened + toldResolved},
	} {
		t.Run(name, func(t *testing.T) {
			for _, after := range []bool{false, true} {
				atEveryCommit(t, 2, func(k int) bool {
					st := openMemory(t)
					var failing atomic.Bool
					failing.Store(true)
					first := alerted(t, st, &failing)
					wf := first.applyWatched("w", watched(`"failed"`))
					first.ends(first.submit(wf), dag.RunFailed)
					first.quiet()
					first.close()
					failing.Store(c.fails)
					m := newMortal(st, k, after)
					n := alerted(t, m, &failing)
					died := startUntil(t, n, wf, m)
					n.close()
					last := alerted(t, st, &failing)
					id := last.submit(wf, func(s *engine.Submission) { s.Key = "k" })
					last.ends(id, map[bool]dag.RunState{true: dag.RunFailed, false: dag.RunSucceeded}[c.fails])
					last.quiet()
					wantIncidents(t, st, c.want)
					last.close()
					return died
				})
			}
		})
	}
}

// startUntil starts a run under the key k. It returns when the run has ended, or when the process of the
// store has died.
func startUntil(t *testing.T, n *node, wf store.Workflow, m *mortal) (died bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-m.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	s := submission(wf)
	s.Key = "k"
	_, err := n.Submit(ctx, s)
	cancel()
	<-stop
	if err != nil {
		return true
	}
	eventually(t, "it is done or dead", func() bool {
		select {
		case <-m.died:
			died = true
			return true
		default:
			return n.Idle() && n.Free() == n.slots && n.Waiting() == 0
		}
	})
	return died
}
