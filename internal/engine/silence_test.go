package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

func failure() dag.Result {
	return dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, Exited: true, ExitCode: 1}
}

// hush makes a silence that lasts until an offset of the hour.
func (x *timed) hush(n byte, workflow string, until time.Duration) uuid.UUID {
	x.t.Helper()
	s := store.Silence{ID: uuid.UUID{n}, Namespace: "test", Workflow: workflow, By: "ann", Reason: "a test",
		Until: dag.Micro(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(until))}
	if _, err := x.st.PutSilence(x.t.Context(), s); err != nil {
		x.t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // until its owner reads the silences again
	return s.ID
}

const failed = "alerts: [{on: failed, to: ops}]\n"

// TestSilence: an alert that opens during a silence is recorded. If it is still open when the silence ends,
// the notice is sent, even if another node owns the shard by then.
func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.result = func(engine.Assignment) dag.Result { return failure() }
		x.watching(t)
		w, other := x.set("w", failed), x.set("other", failed)
		x.hush(1, "w", 10*time.Minute)
		x.submit(w)
		time.Sleep(time.Millisecond) // incidents are listed in the order of their times, which must differ
		x.submit(other)
		x.incidentsAre("open 1, open 1 opened:ops")
		x.whole()
		x.crash(t)
		x.hush(2, "", 12*time.Minute)
		x.submit(other)
		x.incidentsAre("open 1, open 2 opened:ops")
		until(10*time.Minute + time.Second)
		x.incidentsAre("open 1, open 2 opened:ops")
		until(12*time.Minute - time.Second)
		x.incidentsAre("open 1, open 2 opened:ops")
		until(12 * time.Minute)
		x.incidentsAre("open 1 opened:ops, open 2 opened:ops")
		x.rest()
	})
}

// TestSilenceOfWhatEnds: no notice is sent about an alert that opens and ends during a silence, or that a
// person acknowledges meanwhile. If a notice was sent before the silence, the notice of the end is sent at
// once.
func TestSilenceOfWhatEnds(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		fail := true
		x.result = func(engine.Assignment) dag.Result {
			if fail {
				return failure()
			}
			return success()
		}
		x.watching(t)
		all := []store.Workflow{x.set("before", failed), x.set("within", failed), x.set("known", failed),
			x.set("each", "alerts: [{on: failed, to: ops, each: true}]\n")}
		x.submit(all[0])
		x.incidentsAre("open 1 opened:ops")
		x.hush(1, "", 10*time.Minute)
		for _, w := range all[1:] {
			x.submit(w)
			pass(time.Second)
		}
		x.incidentsAre("open 1 opened:ops, open 1, open 1, resolved 1")
		rows, err := x.st.Incidents(t.Context(), store.IncidentQuery{Workflow: all[2].ID, Limit: 9})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%+v, %v", rows, err)
		}
		if err := engine.NewIncidents(x.Engine).Change(t.Context(), rows[0].ID, engine.IncidentChange{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		fail = false
		x.submit(all[0])
		x.submit(all[1])
		x.incidentsAre("resolved 1 opened:ops resolved:ops, resolved 1, acknowledged 1, resolved 1")
		until(11 * time.Minute)
		x.incidentsAre("resolved 1 opened:ops resolved:ops, resolved 1, acknowledged 1, resolved 1")
		x.submit(all[2])
		x.incidentsAre("resolved 1 opened:ops resolved:ops, resolved 1, resolved 1, resolved 1")
		x.rest()
	})
}

// TestSilenceEndedEarly: if a person ends a silence early, notices of open alerts are sent within a minute.
func TestSilenceEndedEarly(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.result = func(engine.Assignment) dag.Result { return failure() }
		x.watching(t)
		w := x.set("w", failed)
		id := x.hush(1, "w", time.Hour)
		x.submit(w)
		until(5 * time.Minute)
		x.incidentsAre("open 1")
		if _, err := x.st.EndSilence(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		pass(62 * time.Second)
		x.incidentsAre("open 1 opened:ops")
		x.rest()
	})
}

const climbing = "alerts: [{on: failed, to: ops, escalate: [{after: 10m, to: [ops, oncall]}, {after: 1h, to: lead}]}]\n"

// TestEscalation: further channels are notified until a person acknowledges the alert, and all of them are
// notified of its end.
func TestEscalation(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.result = func(engine.Assignment) dag.Result { return failure() }
		x.watching(t)
		w := x.set("w", climbing)
		x.submit(w)
		until(9 * time.Minute)
		x.incidentsAre("open 1 opened:ops")
		x.crash(t)
		until(10 * time.Minute)
		x.incidentsAre("open 1 opened:ops escalated:oncall escalated:ops")
		x.submit(w)
		until(59 * time.Minute)
		x.incidentsAre("open 2 opened:ops escalated:oncall escalated:ops")
		until(60 * time.Minute)
		x.incidentsAre("open 2 opened:ops escalated:oncall escalated:ops escalated:lead")
		until(3 * time.Hour)
		is := x.newest()
		if err := engine.NewIncidents(x.Engine).Change(t.Context(), is.ID, engine.IncidentChange{Actor: "ann", Resolve: true}); err != nil {
			t.Fatal(err)
		}
		x.incidentsAre("resolved 2 opened:ops escalated:oncall escalated:ops escalated:lead resolved:lead resolved:oncall resolved:ops")
		x.rest()
	})
}

// TestEscalationAcknowledged: an acknowledgement ends the escalation. A silence delays the escalation.
func TestEscalationAcknowledged(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.result = func(engine.Assignment) dag.Result { return failure() }
		x.watching(t)
		w := x.set("w", climbing)
		x.hush(1, "w", 20*time.Minute)
		x.submit(w)
		until(29 * time.Minute)
		x.incidentsAre("open 1 opened:ops")
		until(30 * time.Minute)
		x.incidentsAre("open 1 opened:ops escalated:oncall escalated:ops")
		if err := engine.NewIncidents(x.Engine).Change(t.Context(), x.newest().ID, engine.IncidentChange{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		until(3 * time.Hour)
		x.incidentsAre("acknowledged 1 opened:ops escalated:oncall escalated:ops")
		x.rest()
	})
}

// TestManySilencedIncidents: silenced alerts cost no rows while the silence lasts.
func TestManySilencedIncidents(t *testing.T) {
	bubble(t, func(t *testing.T, x *timed) {
		x.result = func(engine.Assignment) dag.Result { return failure() }
		x.watching(t)
		x.hush(1, "", time.Hour)
		for i := range 20 {
			x.submit(x.set(fmt.Sprintf("w%d", i), failed))
		}
		until(10 * time.Minute)
		before := x.st.commits.Load()
		until(50 * time.Minute)
		if n := x.st.commits.Load() - before; n != 0 {
			t.Errorf("%d transactions were written", n)
		}
		until(61 * time.Minute)
		if got := incidents(t, x.st); strings.Count(got, "open 1 opened:ops") != 20 {
			t.Error(got)
		}
		x.rest()
	})
}
