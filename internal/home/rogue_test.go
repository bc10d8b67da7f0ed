package home_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// theft is a scene with a third worker, the rogue. It calls about an attempt that it does not have, or no
// longer has.
type theft struct {
	*scene
	rogue  *hand
	named  string
	victim *workerv1.Attempt // the attempt that the rogue calls about
	text   string            // the output of that attempt
}

var left = file{"salaries", "0123456789"}

// callsOf are the methods of the worker protocol that name an attempt or something that belongs to one. Each
// function makes one call as the rogue and returns the reason for the refusal, or "" if the call was not
// refused. A method without a line here fails TestRogueWorker.
var callsOf = map[string]func(*theft) string{
	"Register": func(s *theft) string {
		out, err := s.rogue.c.Register(s.Context(), &workerv1.RegisterRequest{Name: s.named, Uuid: s.rogue.uuid, Handler: s.rogue.handler, Slots: 2,
			Groups: []string{"rogue"}, Running: []*workerv1.Attempt{s.victim}, Artifacts: true, Inputs: true})
		switch {
		case err != nil:
			return reason(err)
		case len(out.Revoked) != 1:
			return ""
		}
		s.rogue.lease = out.Lease
		return "REVOKED"
	},
	"Poll": func(s *theft) string {
		in := s.rogue.pollRequest()
		in.Running = []*workerv1.Attempt{s.victim}
		for range 5 { // each poll lasts until there is news
			out, err := s.rogue.c.Poll(s.Context(), in)
			if err != nil {
				return reason(err)
			}
			if slices.ContainsFunc(out.Stop, func(x *workerv1.Stop) bool { return x.Kill && same(x.Attempt, s.victim) }) {
				return "STOP"
			}
			in.Ack = out.Seq
		}
		return ""
	},
	"Report": func(s *theft) string { return report(s.rogue, good(s.victim)) },
	"Files": func(s *theft) string {
		_, err := s.rogue.c.Files(s.Context(), &workerv1.FilesRequest{Handler: s.rogue.handler, Lease: s.rogue.lease, Uuid: s.rogue.uuid, Attempt: s.victim})
		return refusalOf(err)
	},
	"PutArtifact": func(s *theft) string {
		_, _, why := s.rogue.put(s.victim, 0, file{"salaries", "EVIL"}.wire(), 0, "EVIL")
		return why
	},
	"KeepArtifacts": func(s *theft) string { return s.rogue.keep(s.victim) },
	"ListInputs":    func(s *theft) string { _, why := s.rogue.list(s.victim); return why },
	"GetInput":      func(s *theft) string { _, why := s.rogue.read(s.victim, 0, 0); return why },
	"PushLogs": func(s *theft) string {
		out, err := s.rogue.c.PushLogs(s.Context(), &workerv1.PushLogsRequest{Handler: s.rogue.handler, Lease: s.rogue.lease, Uuid: s.rogue.uuid,
			Chunks: []*workerv1.LogChunk{{Attempt: s.victim, Namespace: "test", Workflow: "w", Task: "t0", Offset: int64(len(s.text)), Data: []byte("FORGED LINE\n")}}})
		switch {
		case err != nil:
			return reason(err)
		case out.Ends[0] < 0:
			return "STALE"
		}
		return ""
	},
	"GiveLog": func(s *theft) string {
		_, err := s.rogue.c.GiveLog(s.Context(), &workerv1.GiveLogRequest{Handler: s.rogue.handler, Lease: s.rogue.lease, Uuid: s.rogue.uuid, Ticket: s.victim.Run, Data: []byte("x")})
		return refusalOf(err)
	},
	"Leave": func(s *theft) string {
		_, err := s.rogue.c.Leave(s.Context(), &workerv1.LeaveRequest{Handler: s.rogue.handler, Lease: s.rogue.lease, Uuid: s.rogue.uuid})
		return refusalOf(err)
	},
}

func refusalOf(err error) string {
	if err == nil {
		return ""
	}
	return reason(err)
}

// stands lists how the rogue knows the attempt that it calls about, with the expected results of the calls
// that do not return STALE.
var stands = []struct {
	name string
	as   func(*theft)
	want map[string]string
	soon bool // the result of an earlier read of the rows is still used for a moment
}{
	{name: "foreign", as: func(s *theft) {}, want: map[string]string{"Register": "REVOKED", "Poll": "STOP", "Leave": ""}},
	{name: "revoked", as: func(s *theft) {
		s.rogue.uuid, s.rogue.handler, s.rogue.running = uuid.NewString(), 0, []*workerv1.Attempt{s.victim}
		s.named = "rogue2"
		s.rogue.register(s.named, 2, "rogue")
	}, want: map[string]string{"Register": "REVOKED", "Poll": "STOP", "Leave": ""}},
	{name: "ended, as another home has heard", soon: true, as: func(s *theft) {
		s.own()
		k := s.victim
		run, err := dag.ParseRunID(k.Run)
		if err != nil {
			s.Fatal(err)
		}
		done := make(chan dag.Verdict, 1)
		if err := s.n.e.HearAll(dag.HandlerID(s.rogue.handler), []engine.Report{{Run: run, Task: dag.TaskID(k.Task), Token: dag.Token(k.Token),
			Result: dag.Result{State: dag.AttemptSucceeded, Finished: 1}}}, func(_ int, v dag.Verdict, err error) { done <- v }); err != nil {
			s.Fatal(err)
		}
		if v := <-done; v != dag.Accepted {
			s.Fatalf("the end is %v", v)
		}
	}, want: map[string]string{"Register": "REVOKED", "Poll": "", "Leave": "", "Report": "RUN_ENDED", "PushLogs": ""}},
	{name: "ended", as: func(s *theft) {
		s.own()
		if v := s.rogue.end(s.victim); v != workerv1.Verdict_VERDICT_ACCEPTED {
			s.Fatal(v)
		}
	}, want: map[string]string{"Register": "REVOKED", "Poll": "", "Leave": "", "Report": "RUN_ENDED", "PushLogs": ""}},
	{name: "another's, and ended", as: func(s *theft) {
		s.a.end(s.x)
	}, want: map[string]string{"Register": "REVOKED", "Poll": "STOP", "Leave": "", "Report": "RUN_ENDED"}},
	{name: "in another handler's name", as: func(s *theft) {
		s.rogue.handler, s.rogue.lease, s.named = s.a.handler, s.a.lease, "stranger"
	}, want: map[string]string{"Register": "FENCED", "": "FORGED"}},
}

// own gives the rogue an attempt of its own, with a deposit, and makes the rogue call about that attempt.
func (s *theft) own() {
	s.Helper()
	s.submit(s.apply("mine", dag.NewPlace("", "rogue", nil)))
	s.rogue.get(1)
	s.victim, s.text = s.rogue.running[0], ""
}

// TestRogueWorker: a worker with a valid token calls every method of the protocol about attempts that are not its own,
// were taken from it, or have ended, and as another handler. Each call is refused by name, and afterwards the
// logs and artifacts of the honest worker are unchanged.
func TestRogueWorker(t *testing.T) {
	methods := workerv1.File_worker_v1_worker_proto.Services().ByName("Workers").Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if callsOf[name] == nil {
			t.Errorf("the method %s of the worker protocol has no line in callsOf: say what a worker may do with it", name)
		}
	}
	if n := methods.Len(); n != len(callsOf) {
		t.Errorf("%d methods, %d calls", n, len(callsOf))
	}
	for _, st := range stands {
		for _, method := range slices.Sorted(maps.Keys(callsOf)) {
			t.Run(st.name+"/"+method, func(t *testing.T) {
				t.Parallel()
				s := newTheft(t)
				st.as(s)
				want, known := st.want[method]
				if !known {
					if want, known = st.want[""]; !known {
						want = "STALE"
					}
				}
				got := callsOf[method](s)
				if st.soon && got != want {
					s.until("it is refused", func() bool { got = callsOf[method](s); return got == want })
				}
				if got != want {
					t.Errorf("answered %q, want %q", got, want)
				}
				s.intact()
			})
		}
	}
}

// newTheft returns a scene in which the honest worker has written a line of its log and has stored a file.
func newTheft(t *testing.T) *theft {
	s := &theft{scene: newScene(t), named: "rogue"}
	s.rogue, s.victim = s.hand(s.n, "rogue", 2, "rogue"), s.x
	if why := s.a.printed(s.x, 0, "honest\n"); why != "" {
		t.Fatal(why)
	}
	s.text = "honest\n"
	if _, _, why := s.a.put(s.x, 0, left.wire(), 0, left.text); why != "" {
		t.Fatal(why)
	}
	if why := s.a.keep(s.x, left); why != "" {
		t.Fatal(why)
	}
	return s
}

// printed sends a line of a log.
func (h *hand) printed(x *workerv1.Attempt, offset int, text string) string {
	out, err := h.c.PushLogs(h.t.Context(), &workerv1.PushLogsRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid,
		Chunks: []*workerv1.LogChunk{{Attempt: x, Offset: int64(offset), Data: []byte(text)}}})
	switch {
	case err != nil:
		return reason(err)
	case out.Ends[0] < 0:
		return "STALE"
	}
	return ""
}

// intact checks that the logs and artifacts of the honest worker are unchanged, and that this worker can
// continue.
func (s *theft) intact() {
	s.Helper()
	s.logs.mu.Lock()
	for ref, text := range s.logs.text {
		if ref.Run == s.run && (text != "honest\n" || ref.Name != "t0") {
			s.Errorf("the log of %s is %q", ref.Name, text)
		}
	}
	s.logs.mu.Unlock()
	list, err := s.files.List(s.Context(), s.ref())
	if w := left.wire(); err != nil || len(list) != 1 || list[0] != (artifact.Info{Name: w.Name, Size: w.Size, SHA256: w.Sha256}) {
		s.Errorf("the honest worker's files are %v, %v", list, err)
	}
	if v := s.a.end(s.x); v != workerv1.Verdict_VERDICT_ACCEPTED && v != workerv1.Verdict_VERDICT_DUPLICATE && v != workerv1.Verdict_VERDICT_RUN_ENDED {
		s.Errorf("the end of the honest worker's attempt is %s", v)
	}
	row, err := s.n.e.RunRow(s.Context(), s.run)
	if err != nil || row.State != dag.RunSucceeded {
		s.Errorf("the run is %s, %v", row.State, err)
	}
}

// TestDepositIsFinal: stored artifacts of an attempt cannot be changed, even by the worker that has the
// attempt. A call that stores the same list again succeeds.
func TestDepositIsFinal(t *testing.T) {
	t.Parallel()
	s := newTheft(t)
	evil := file{"salaries", "EVIL"}
	if _, _, why := s.a.put(s.x, 0, evil.wire(), 0, evil.text); why != "" {
		t.Fatal(why)
	}
	if why := s.a.keep(s.x, evil); why != "FINAL" {
		t.Errorf("other files are answered %q", why)
	}
	if why := s.a.keep(s.x); why != "FINAL" {
		t.Errorf("no files are answered %q", why)
	}
	if _, _, why := s.a.put(s.x, 0, left.wire(), 0, left.text); why != "" {
		t.Fatal(why)
	}
	for range 2 {
		if why := s.a.keep(s.x, left); why != "" {
			t.Errorf("the same files are answered %q", why)
		}
	}
	s.intact()
}

// TestRogueNode: a node cannot end an attempt of a worker that is attached to another node, nor can a caller
// that proves no name. The home node can, also after the worker has moved to it because its former home died.
func TestRogueNode(t *testing.T) {
	t.Parallel()
	tn := newTown(t, 3)
	n1, n2, n3 := tn.nodes[0], tn.nodes[1], tn.nodes[2]
	w := tn.apply("w", dag.NewPlace("", "etl", nil))
	a := tn.hand(n1, "a", 4, "etl")
	for range 4 { // of several shards
		tn.submit(w)
	}
	a.get(4)
	x := a.running[0]
	run, err := dag.ParseRunID(x.Run)
	if err != nil {
		t.Fatal(err)
	}
	word, err := json.Marshal(map[string]any{"Handler": a.handler, "Report": engine.Report{Run: run, Task: dag.TaskID(x.Task), Token: dag.Token(x.Token),
		Result: dag.Result{State: dag.AttemptSucceeded}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"n3", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n2.http.URL+home.ReportPath, bytes.NewReader(word))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(senderHeader, by)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("a report by %q: %s", by, resp.Status)
		}
	}
	n1.die()
	a.c = workerv1connect.NewWorkersClient(http.DefaultClient, n3.http.URL)
	a.register("a", 4, "etl")
	for _, x := range slices.Clone(a.running) {
		a.end(x)
	}
}
