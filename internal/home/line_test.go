package home_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/line"
)

// TestReportOverALine: each report over a line is checked like a call, and its answer brings the next jobs.
func TestReportOverALine(t *testing.T) {
	tn := newTown(t, 1)
	n := tn.nodes[0]
	h := tn.hand(n, "w", 1)
	h.starts = true
	first := tn.submit(tn.apply("flow", dag.Anywhere))
	h.get(1)
	second := tn.submit(tn.apply("more", dag.Anywhere)) // waits for the slot
	l, err := line.Open(t.Context(), http.DefaultTransport, n.http.URL+home.LinePath, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	say := func(in *workerv1.ReportRequest) (*workerv1.ReportResponse, error) {
		call, err := proto.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := l.Call(t.Context(), call)
		out := &workerv1.ReportResponse{}
		return out, errors.Join(err, proto.Unmarshal(reply, out))
	}
	refused := func(err error, code connect.Code, text string) {
		t.Helper()
		var is *line.Refused
		if !errors.As(err, &is) || connect.Code(is.Code) != code || !strings.HasPrefix(is.Text, text) {
			t.Errorf("%v, want %v %s", err, code, text)
		}
	}
	forged := h.request(good(h.running[0]))
	forged.Uuid = "another"
	_, err = say(forged)
	refused(err, connect.CodePermissionDenied, "FORGED:")
	forged.Lease++
	_, err = say(forged)
	refused(err, connect.CodeFailedPrecondition, "NOT_ATTACHED:")
	before := n.h.Stats.Rejected(home.Unreadable)
	_, err = l.Call(t.Context(), []byte("no report at all"))
	refused(err, connect.CodeInvalidArgument, "")
	if got := n.h.Stats.Rejected(home.Unreadable) - before; got != 1 {
		t.Errorf("%d unreadable calls were counted", got)
	}
	tn.until("the second run waits for a slot", func() bool { return n.e.Stats().ReadyTasks.Load() > 0 })
	out, err := say(h.request(good(h.running[0])))
	if err != nil || len(out.Verdicts) != 1 || out.Verdicts[0] != workerv1.Verdict_VERDICT_ACCEPTED {
		t.Fatalf("%v, %v", out, err)
	}
	h.running = nil
	if h.begin(out.Start); len(h.running) == 0 { // the poll may have brought the job
		h.get(1)
	}
	if out, err = say(h.request(good(h.running[0]))); err != nil || out.Verdicts[0] != workerv1.Verdict_VERDICT_ACCEPTED {
		t.Fatalf("%v, %v", out, err)
	}
	tn.until("both runs have ended", func() bool { return tn.ended([]dag.RunID{first, second}) })
}
