package home_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// scene is two workers of one node. The first has the only attempt of a run.
type scene struct {
	*town
	n    *node
	a, b *hand
	run  dag.RunID
	x    *workerv1.Attempt
}

func newScene(t *testing.T) *scene {
	tn := newTown(t, 1)
	s := &scene{town: tn, n: tn.nodes[0]}
	s.a, s.b = tn.hand(s.n, "a", 2, "etl"), tn.hand(s.n, "b", 2)
	w := tn.apply("w", dag.NewPlace("", "etl", nil))
	s.run = tn.submit(w)
	s.a.get(1)
	s.x = s.a.running[0]
	return s
}

// said returns the verdict as text.
func said(v workerv1.Verdict) string { return strings.TrimPrefix(v.String(), "VERDICT_") }

func (s *scene) raw(method, contentType, body string) string {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.n.http.URL+home.Prefix+method, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	out, _ := io.ReadAll(res.Body)
	for _, code := range []string{"invalid_argument", "resource_exhausted", "unimplemented"} {
		if bytes.Contains(out, []byte(`"`+code+`"`)) {
			return code
		}
	}
	return res.Status
}

func other(a *workerv1.Attempt, change func(*workerv1.Attempt)) *workerv1.Attempt {
	o := &workerv1.Attempt{Run: a.Run, Task: a.Task, Token: a.Token}
	change(o)
	return o
}

// failed reports the end of an attempt.
func failed(a *workerv1.Attempt) *workerv1.Result {
	return &workerv1.Result{Attempt: a, State: "failed"}
}

// report sends a report once. It returns the verdict or the rejection.
func report(h *hand, r *workerv1.Result) string {
	out, err := h.c.Report(h.t.Context(), h.request(r))
	if err != nil {
		return reason(err)
	}
	return said(out.Verdicts[0])
}

// rejected is a call and its expected result.
type rejected struct {
	name string
	call func(s *scene) string
	want string
	why  home.Reason // the counted reason; -1 if the call is not rejected
	said bool        // the rejection is in the run's history
	over bool        // the run has ended
}

// forgeries are calls under a false identity.
var forgeries = []rejected{
	{name: "a report of an unknown worker", want: "NOT_ATTACHED", why: home.NotAttached, call: func(s *scene) string {
		return report(&hand{t: s.town, c: s.a.c, uuid: s.a.uuid, handler: 4711, lease: 1}, failed(s.x))
	}},
	{name: "a report under another lease", want: "NOT_ATTACHED", why: home.NotAttached, call: func(s *scene) string {
		return report(&hand{t: s.town, c: s.a.c, uuid: s.a.uuid, handler: s.a.handler, lease: s.a.lease + 1}, failed(s.x))
	}},
	{name: "a report in another worker's name", want: "FORGED", why: home.Forged, call: func(s *scene) string {
		return report(&hand{t: s.town, c: s.b.c, uuid: s.b.uuid, handler: s.a.handler, lease: s.a.lease}, failed(s.x))
	}},
	{name: "a poll in another worker's name", want: "FORGED", why: home.Forged, call: func(s *scene) string {
		in := s.a.pollRequest()
		in.Uuid, in.Running = s.b.uuid, nil
		_, err := s.b.c.Poll(s.Context(), in)
		return reason(err)
	}},
	{name: "a farewell in another worker's name", want: "FORGED", why: home.Forged, call: func(s *scene) string {
		_, err := s.b.c.Leave(s.Context(), &workerv1.LeaveRequest{Handler: s.a.handler, Lease: s.a.lease, Uuid: s.b.uuid})
		return reason(err)
	}},
	{name: "a registration in another worker's name", want: "FENCED", why: home.Fenced, call: func(s *scene) string {
		_, err := s.b.c.Register(s.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: s.b.uuid, Handler: s.a.handler, Slots: 1})
		return reason(err)
	}},
	{name: "a registration under the name of a node", want: "NAME_TAKEN", why: home.NameTaken, call: func(s *scene) string {
		_, err := s.b.c.Register(s.Context(), &workerv1.RegisterRequest{Name: s.n.name, Uuid: uuid.NewString(), Slots: 1})
		return reason(err)
	}},
	{name: "a registration under the name of a worker", want: "NAME_HELD", why: home.NameHeld, call: func(s *scene) string {
		_, err := s.b.c.Register(s.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: uuid.NewString(), Slots: 1, Groups: []string{"etl"}})
		return reason(err)
	}},
	{name: "a registration with an attempt that is none", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		_, err := s.b.c.Register(s.Context(), &workerv1.RegisterRequest{Name: "c", Uuid: uuid.NewString(), Slots: 1, Running: []*workerv1.Attempt{{Run: "x"}}})
		return reason(err)
	}},
}

// reports are reports about attempts of other workers, and invalid ones.
var reports = []rejected{
	{name: "a report of an attempt that it does not hold", want: "STALE", why: home.Stale, said: true, call: func(s *scene) string {
		return report(s.b, failed(s.x))
	}},
	{name: "a report under an old token", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		return report(s.a, failed(other(s.x, func(o *workerv1.Attempt) { o.Token-- }))) // there was no attempt before the first one
	}},
	{name: "a report under a token to come", want: "STALE", why: home.Stale, said: true, call: func(s *scene) string {
		return report(s.a, failed(other(s.x, func(o *workerv1.Attempt) { o.Token++ })))
	}},
	{name: "a report of a task that the run does not have", want: "STALE", why: home.Stale, call: func(s *scene) string {
		return report(s.a, failed(other(s.x, func(o *workerv1.Attempt) { o.Task = 99 })))
	}},
	{name: "a report of a run that there is not", want: "STALE", why: home.Stale, call: func(s *scene) string {
		return report(s.a, failed(other(s.x, func(o *workerv1.Attempt) { o.Run = uuid.NewString() })))
	}},
	{name: "a report of an ended run", want: "RUN_ENDED", why: home.RunEnded, over: true, call: func(s *scene) string {
		s.a.end(s.x)
		return report(s.b, failed(s.x))
	}},
	{name: "that it runs, after its end", want: "RUN_ENDED", why: home.RunEnded, over: true, call: func(s *scene) string {
		s.a.end(s.x)
		return report(s.a, &workerv1.Result{Attempt: s.x, Running: true, StartedMicros: 1})
	}},
	{name: "a report that makes no sense", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		return report(s.a, &workerv1.Result{Attempt: s.x, State: "splendid"})
	}},
	{name: "outputs that are no object", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		return report(s.a, &workerv1.Result{Attempt: s.x, State: "succeeded", Outputs: []byte(`[1]`)})
	}},
	{name: "no attempt at all", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		return report(s.a, &workerv1.Result{State: "succeeded"})
	}},
	{name: "too many results", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		_, err := s.a.c.Report(s.Context(), s.a.request(make([]*workerv1.Result, 1001)...))
		return reason(err)
	}},
}

// others are other calls, and requests that cannot be parsed.
var others = []rejected{
	{name: "a heartbeat with an attempt that is none", want: "MALFORMED", why: home.Malformed, call: func(s *scene) string {
		in := s.a.pollRequest()
		in.Running = append(in.Running, &workerv1.Attempt{Run: "x"})
		_, err := s.a.c.Poll(s.Context(), in)
		return reason(err)
	}},
	{name: "a heartbeat with an attempt of another", want: "STOP", why: home.Stale, call: func(s *scene) string {
		s.b.running = []*workerv1.Attempt{s.x}
		s.until("it is told to end it", func() bool {
			stops := s.b.poll().Stop
			return len(stops) == 1 && stops[0].Kill && same(stops[0].Attempt, s.x)
		})
		s.b.running = nil
		return "STOP"
	}},
	{name: "a heartbeat after it has left", want: "NOT_ATTACHED", why: home.NotAttached, call: func(s *scene) string {
		if _, err := s.b.c.Leave(s.Context(), &workerv1.LeaveRequest{Handler: s.b.handler, Lease: s.b.lease, Uuid: s.b.uuid}); err != nil {
			s.Fatal(err)
		}
		_, err := s.b.c.Poll(s.Context(), s.b.pollRequest())
		return reason(err)
	}},
	{name: "a registration after it was fenced", want: "FENCED", why: home.Fenced, call: func(s *scene) string {
		s.deposed(s.b)
		_, err := s.b.c.Register(s.Context(), &workerv1.RegisterRequest{Name: "b", Uuid: s.b.uuid, Handler: s.b.handler, Slots: 1})
		return reason(err)
	}},
	{name: "a report after it was fenced", want: "STALE", why: home.Stale, call: func(s *scene) string {
		s.deposed(s.a)
		late := *s.a
		late.register2(s.n) // a new process registers under the worker's name
		late.get(1)
		if late.running[0].Token <= s.x.Token {
			s.Errorf("the task came back under token %d", late.running[0].Token)
		}
		s.a = &late
		old := s.x
		s.x = late.running[0]
		return report(s.a, failed(old))
	}},
	{name: "a life whose name another worker has by now", want: "NAME_TAKEN", why: home.NameTaken, over: true, call: func(s *scene) string {
		s.deposed(s.a)
		s.hand(s.n, "a", 2, "etl")
		_, err := s.a.c.Register(s.Context(), &workerv1.RegisterRequest{Name: "a", Uuid: s.a.uuid, Handler: s.a.handler, Slots: 2, Running: s.a.running})
		return reason(err)
	}},
	{name: "a poll of a life whose name another worker has just taken", want: "NOT_ATTACHED", why: home.NotAttached, over: true, call: func(s *scene) string {
		s.deposed(s.a)
		s.hand(s.n, "a", 2, "etl")
		_, err := s.a.c.Poll(s.Context(), s.a.pollRequest())
		return reason(err)
	}},
	{name: "files of an attempt of another", want: "STALE", why: home.Stale, call: func(s *scene) string {
		_, err := s.b.c.Files(s.Context(), &workerv1.FilesRequest{Handler: s.b.handler, Lease: s.b.lease, Uuid: s.b.uuid, Attempt: s.x})
		return reason(err)
	}},
	{name: "the log of an attempt of another", want: "-1", why: home.Stale, call: func(s *scene) string {
		out, err := s.b.c.PushLogs(s.Context(), &workerv1.PushLogsRequest{Handler: s.b.handler, Lease: s.b.lease, Uuid: s.b.uuid,
			Chunks: []*workerv1.LogChunk{{Attempt: s.x, Namespace: "test", Workflow: "w", Task: "t0", Data: []byte("forged")}}})
		if err != nil || out.Ends[0] != -1 || len(s.logs.text) != 0 {
			return "taken"
		}
		return "-1"
	}},
	{name: "a log by the names of another", want: "t0 of test/w", why: -1, call: func(s *scene) string {
		_, err := s.a.c.PushLogs(s.Context(), &workerv1.PushLogsRequest{Handler: s.a.handler, Lease: s.a.lease, Uuid: s.a.uuid,
			Chunks: []*workerv1.LogChunk{{Attempt: s.x, Namespace: "victim", Workflow: "..", Task: "secret", Data: []byte("mine")}}})
		for ref := range s.logs.text {
			return ref.Name + " of " + ref.Namespace + "/" + ref.Workflow
		}
		return reason(err)
	}},
	{name: "garbage", want: "invalid_argument", why: home.Unreadable, call: func(s *scene) string {
		return s.raw("Report", "application/json", `{"handler": "many", `)
	}},
	{name: "garbage in binary", want: "invalid_argument", why: home.Unreadable, call: func(s *scene) string {
		return s.raw("Poll", "application/proto", "\xff\xff\xff\xff")
	}},
	{name: "a frame that is too large", want: "resource_exhausted", why: home.Unreadable, call: func(s *scene) string {
		return s.raw("Report", "application/json", `{"uuid": "`+strings.Repeat("x", 33<<20)+`"}`)
	}},
	{name: "a call that there is not", want: "404 Not Found", why: home.Unreadable, call: func(s *scene) string {
		return s.raw("Reward", "application/json", `{}`)
	}},
	// These calls have no further effect when they are repeated:
	{name: "that it runs, twice", want: "ACCEPTED DUPLICATE", why: -1, call: func(s *scene) string {
		r := &workerv1.Result{Attempt: s.x, Running: true, StartedMicros: 1}
		return report(s.a, r) + " " + report(s.a, r)
	}},
	{name: "a start that is confirmed twice", want: "1", why: -1, call: func(s *scene) string {
		s.a.poll()
		s.a.ack-- // as if this answer had been lost
		s.a.poll()
		return string(rune('0' + len(s.a.running)))
	}},
}

// TestRejected: forged, stale, doubled and reordered calls get a named code and are counted. They change
// nothing: the attempt still belongs to its worker, which ends it.
func TestRejected(t *testing.T) {
	for _, tt := range slices.Concat(forgeries, reports, others) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if got := tt.call(s); got != tt.want {
				t.Fatalf("answered %s, want %s", got, tt.want)
			}
			if tt.why >= 0 && s.n.h.Stats.Rejected(tt.why) == 0 {
				t.Errorf("not counted as %s", tt.why)
			}
			if tt.said {
				s.until("the history tells of it", func() bool { return s.rejectedIn(s.run) })
			}
			if tt.over {
				return
			}
			if v := s.a.end(s.x); v != workerv1.Verdict_VERDICT_ACCEPTED {
				t.Errorf("the end of the attempt, said by who has it, is %s", v)
			}
			row, err := s.n.e.RunRow(s.Context(), s.run)
			if err != nil || row.State != dag.RunSucceeded {
				t.Errorf("the run is %s, %v", row.State, err)
			}
		})
	}
}

// deposed declares the worker of h dead.
func (s *scene) deposed(h *hand) {
	s.Helper()
	s.until("it is declared dead", func() bool {
		members, _, err := s.store.Members(context.Background())
		if err != nil {
			s.Fatal(err)
		}
		for _, m := range members {
			if m.Handler == dag.HandlerID(h.handler) {
				won, err := s.store.Depose(context.Background(), m.Handler, m.Beat)
				return err == nil && won
			}
		}
		return true
	})
}

// register2 registers the worker again, as a new process.
func (h *hand) register2(n *node) {
	h.t.Helper()
	h.uuid, h.handler, h.running, h.done = uuid.NewString(), 0, nil, nil
	h.register("a", 2, "etl")
}

// TestLostByItsWorker: if a worker had an attempt and stops listing it without a report, the attempt is
// assigned again. A poll that was overtaken does not prove that.
func TestLostByItsWorker(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	early := s.a.pollRequest()
	early.Ack, early.Running = 0, nil
	s.a.poll() // the attempt is confirmed
	if _, err := s.a.c.Poll(s.Context(), early); err != nil {
		t.Fatal(err)
	}
	if n := s.n.h.Stats.Lost.Load(); n != 0 {
		t.Errorf("%d attempts are lost by a poll of before", n)
	}
	s.a.running = nil
	s.a.get(1)
	if s.a.running[0].Token <= s.x.Token {
		t.Errorf("it came back under token %d", s.a.running[0].Token)
	}
	if s.n.h.Stats.Lost.Load() != 1 {
		t.Errorf("it was not counted")
	}
	s.a.end(s.a.running[0])
}

// TestReportBeforeTheHandOver: the report of an attempt's end may arrive before this home has sent the job to
// the worker, because another home has sent it. Then this home does not begin the attempt.
func TestReportBeforeTheHandOver(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	w := s.apply("w2", dag.NewPlace("", "etl", nil))
	run := s.submit(w)
	x := &workerv1.Attempt{Run: run.String(), Task: 0, Token: 1}
	s.until("it is assigned", func() bool {
		holds, err := s.n.e.Holds(s.Context(), dag.HandlerID(s.a.handler), run, 0, 1)
		return err == nil && holds
	})
	if v := s.a.report(good(x)); v != workerv1.Verdict_VERDICT_ACCEPTED {
		t.Errorf("its end is %s", v)
	}
	for range 3 {
		for _, j := range s.a.poll().Start {
			if same(j.Attempt, x) {
				t.Errorf("it is begun after its end")
			}
		}
	}
	s.a.end(s.x)
}
