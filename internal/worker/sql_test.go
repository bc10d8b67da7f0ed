//go:build linux

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/sdk/shared/mask"
)

// TestSQLCommitCounts: a confirmed commit is a success, whatever ended the attempt meanwhile, because a
// retry would repeat its effect. An end that may have come after the commit says so.
func TestSQLCommitCounts(t *testing.T) {
	for _, cause := range []string{CauseTimeout, CauseStopped, CauseKilled, CauseClosed} {
		a := &attempt{job: &Job{HTTP: &Request{SQL: &Query{}}, Timeout: time.Second}, cause: cause, timedOut: cause == CauseTimeout}
		a.judgeAnswer(&answer{outputs: json.RawMessage("{}")})
		if r := a.result; r.State != Succeeded || r.Cause != "" || string(r.Outputs) != "{}" || r.TimedOut != a.timedOut {
			t.Errorf("%s: %+v", cause, r)
		}
		got := fault(CauseSQL, "%w: the session broke", connection.ErrUnknown)
		a.judgeAnswer(&got)
		if r := a.result; r.State == Succeeded || r.Cause != cause || !strings.Contains(r.Message, "it is unknown whether") {
			t.Errorf("%s, unknown: %+v", cause, r)
		}
		got = fault(CauseSQL, "canceled")
		a.judgeAnswer(&got)
		if r := a.result; r.State == Succeeded || r.Cause != cause || strings.Contains(r.Message, "unknown") {
			t.Errorf("%s, cancelled: %+v", cause, r)
		}
	}
	a := &attempt{job: &Job{HTTP: &Request{}, Timeout: time.Second}, cause: CauseTimeout}
	if a.judgeAnswer(&answer{}); a.result.State != Failed {
		t.Errorf("a request: %+v", a.result)
	}
}

// TestSQLOutputs: results that no output can hold are refused, before the commit.
func TestSQLOutputs(t *testing.T) {
	q := &Query{Result: connection.ResultFirst}
	masks := mask.NewSet([]string{"the-password"})
	for rows, cause := range map[string]string{
		`{"a":1}`:              "",
		`{"a":{"b":"\u0000"}}`: CauseOutput,
		`{"a":"the-password"}`: CauseSecret,
		fmt.Sprintf(`{"a":%q}`, strings.Repeat("x", outputsMaxDefault-10)): CauseOutput, // alone it has the size
	} {
		got := q.outputs(&connection.Done{Rows: json.RawMessage(rows), Affected: 2}, masks)
		if got.cause != cause || (got.err == nil) != (cause == "") {
			t.Errorf("%.40s: %s, %v", rows, got.cause, got.err)
		}
		if cause == "" && string(got.outputs) != `{"row":{"a":1},"rows_affected":2}` {
			t.Errorf("%s", got.outputs)
		}
	}
}

// TestSQLNeedsTheLease: a worker that was frozen past its lease commits nothing.
func TestSQLNeedsTheLease(t *testing.T) {
	w := &Worker{}
	if err := w.holds(); err != nil {
		t.Errorf("without a lease: %v", err)
	}
	w.until.Store(int64(Boot() + time.Hour))
	if err := w.holds(); err != nil {
		t.Error(err)
	}
	w.until.Store(int64(Boot() - time.Second))
	if err := w.holds(); err == nil {
		t.Error("the lease has ended")
	}
}

// TestSQLOnceNeedsAKey: once without a key is not each time.
func TestSQLOnceNeedsAKey(t *testing.T) {
	a := &attempt{w: &Worker{}, job: &Job{}}
	q := &Request{SQL: &Query{Once: true, Text: "SELECT 1"}}
	var log strings.Builder
	if got := q.query(t.Context(), a, &log); got.cause != CauseStart || !strings.Contains(fmt.Sprint(got.err), "no key") || errors.Is(got.err, connection.ErrUnknown) {
		t.Errorf("%+v", got)
	}
}
