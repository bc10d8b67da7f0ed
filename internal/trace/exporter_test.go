package trace

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
	"skein.dev/skein/internal/store/sqlite"
)

// bench is a store with one workflow of two tasks, its owner, its exporter and a collector.
type bench struct {
	*testing.T
	st       store.Store
	fence    store.Fence
	owner    dag.HandlerID
	graph    *dag.Graph
	x        *Exporter
	url      string
	settings Settings
	ids      byte
	now      dag.Micros
	waits    int // number of waits of the exporter

	mu     sync.Mutex      // protects the following fields
	came   map[string]span // by span id
	calls  int
	twice  int // spans that came again
	header http.Header
	// Reports whether the spans were accepted; if it is nil, they are.
	answer func(w http.ResponseWriter, spans []span) bool
}

// Get returns the only graph.
func (b *bench) Get(dag.WorkflowID, int32) (*dag.Graph, error) { return b.graph, nil }

// Of returns the only graph.
func (b *bench) Of(*dag.RunRow) (*dag.Graph, error) { return b.graph, nil }

// onStores runs a test on the stores that need no server. The conformance suite checks that PostgreSQL
// behaves like them.
func onStores(t *testing.T, f func(b *bench)) {
	t.Run("memory", func(t *testing.T) { f(newBench(t, memory.New(memory.Options{}))) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "skein.db"))
		if err != nil {
			t.Fatal(err)
		}
		f(newBench(t, db))
	})
}

func newBench(t *testing.T, st store.Store) *bench {
	t.Helper()
	b := emptyBench(t, st)
	b.fresh()
	return b
}

// emptyBench is a bench without an exporter.
func emptyBench(t *testing.T, st store.Store) *bench {
	t.Cleanup(func() { st.Close() })
	b := &bench{T: t, st: st, came: map[string]span{}, now: dag.Micro(time.Now()), settings: Settings{Mode: ModeRun, Sample: 1}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	var err error
	b.url, err = ParseURL(server.URL)
	b.ok(err)
	b.graph, err = dag.NewGraph(dag.GraphSpec{Tasks: []dag.TaskSpec{{Name: "load"}, {Name: "check", Needs: []string{"load"}}}})
	b.ok(err)
	b.take()
	b.commit(&store.Batch{WorkflowInserts: []store.Workflow{{ID: 1, Namespace: "default", Name: "w", State: store.WorkflowActive, Version: 1, Latest: 1,
		Revision: 1, Created: 1, Modified: 1}}})
	return b
}

// ServeHTTP answers as the collector.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req exportRequest
	binary := b.settings.Protocol == ProtocolProtobuf
	form := "application/json"
	if binary {
		form = "application/x-protobuf"
	}
	zip, err := gzip.NewReader(r.Body)
	if err == nil && binary {
		var data []byte
		data, err = io.ReadAll(zip)
		req = decoded(data)
	} else if err == nil {
		err = json.NewDecoder(zip).Decode(&req)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != form {
		b.Errorf("%s: %v", r.URL, err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	b.header = r.Header
	spans := req.ResourceSpans[0].ScopeSpans[0].Spans
	if b.answer != nil && !b.answer(w, spans) {
		return
	}
	for _, s := range spans {
		if _, again := b.came[s.SpanID]; again {
			b.twice++
		}
		b.came[s.SpanID] = s
	}
	if !binary {
		_, _ = io.WriteString(w, `{"partialSuccess":{}}`)
	}
}

func (b *bench) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// take makes a new owner of the shard.
func (b *bench) take() {
	b.Helper()
	h, err := b.st.Register(b.Context(), uuid.NewString(), "node")
	b.ok(err)
	got, err := b.st.Acquire(b.Context(), h.ID, []dag.ShardID{0})
	b.ok(err)
	b.owner, b.fence = h.ID, got[0].Fence
}

// fresh makes a new exporter of the owner, which first reads its position.
func (b *bench) fresh() {
	b.Helper()
	b.exporter()
	b.step()
}

// exporter makes a new exporter of the owner.
func (b *bench) exporter() {
	owner := b.owner
	b.settings.URL = b.url
	b.x = New(Config{Settings: b.settings, Store: b.st, Graphs: b, Log: slog.New(slog.DiscardHandler), Owner: func() dag.HandlerID { return owner },
		Owns: func(s dag.ShardID) bool { return s == 0 }})
	b.x.sleep = func(ctx context.Context, _ time.Duration) error { b.waits++; return ctx.Err() }
}

func (b *bench) step() {
	b.Helper()
	b.ok(b.x.step(b.Context()))
}

func (b *bench) commit(x *store.Batch) {
	b.Helper()
	x.Fences = []store.Fence{b.fence}
	_, err := b.st.Commit(b.Context(), x)
	b.ok(err)
	b.fence.Seq++
	for i := range x.RunUpdates {
		if r := &x.RunUpdates[i].RunRow; r.State.Terminal() {
			b.x.Ended([]store.Ended{{Fence: b.fence, ID: r.ID, Workflow: r.Workflow, Version: r.Version, Generation: r.Generation, State: r.State,
				Created: r.Created, Split: r.SplitAt, Finished: r.FinishedAt, Root: r.Root(), Trace: r.Trace()}})
		}
	}
}

func records(run dag.RunID, at dag.Micros, recs ...dag.Record) dag.EventRow {
	for i := range recs {
		recs[i].Task = dag.LeaderTask
	}
	return dag.EventRow{Run: run, At: at, Records: dag.PackRecords(recs)}
}

// run makes a run that begins after a second and is not ended.
func (b *bench) run(fire *dag.Fire) *dag.RunRow {
	b.Helper()
	b.ids++
	b.now += 1e6
	r := &dag.RunRow{Header: dag.Header{ID: dag.RunID{1, b.ids, 6: 0x70, 8: 0x80}, Workflow: 1, Version: 1, Priority: dag.Medium, Origin: dag.OriginAPI, Created: b.now, Fire: fire},
		State: dag.RunRunning, Generation: 1, SplitAt: b.now + 1e6, StartedAt: b.now + 1e6}
	b.commit(&store.Batch{Changes: dag.Changes{RunInserts: []dag.RunRow{*r}, Events: []dag.EventRow{records(r.ID, r.SplitAt, dag.Record{Kind: dag.RecSplit, Count: 2})}}})
	return r
}

// end ends a run with an attempt of each of some tasks.
func (b *bench) end(r *dag.RunRow, state dag.RunState, tasks ...dag.TaskID) {
	b.Helper()
	was := r.State
	b.now += 10e6
	r.State, r.FinishedAt, r.Message = state, b.now, "it is over"
	c := dag.Changes{RunUpdates: []dag.RunUpdate{{RunRow: *r, Was: was}}, Events: []dag.EventRow{records(r.ID, b.now, dag.Record{Kind: dag.RecState, Text: state.String()})}}
	for _, t := range tasks {
		c.AttemptInserts = append(c.AttemptInserts, dag.AttemptRow{Run: r.ID, Task: t, Token: dag.Token(r.Generation), Generation: r.Generation, Handler: b.owner,
			State: dag.AttemptFailed, Message: "exit 3", Exited: true, ExitCode: 3, Assigned: b.now - 5000, Started: b.now - 4000, Finished: b.now - 1000})
	}
	b.commit(&store.Batch{Changes: c})
}

// again lets an ended run begin again.
func (b *bench) again(r *dag.RunRow) {
	b.Helper()
	was := r.State
	b.now += 1e6
	r.State, r.FinishedAt, r.StartedAt, r.Generation = dag.RunRunning, 0, b.now, r.Generation+1
	b.commit(&store.Batch{Changes: dag.Changes{RunUpdates: []dag.RunUpdate{{RunRow: *r, Was: was}}, Events: []dag.EventRow{records(r.ID, b.now, dag.Record{Kind: dag.RecRecovered})}}})
}

// has checks which spans the collector has, by their names in order.
func (b *bench) has(want ...string) map[string]span {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var is []string
	all := map[string]span{}
	for _, s := range b.came {
		is = append(is, s.Name)
		all[s.Name] = s
	}
	slices.Sort(is)
	slices.Sort(want)
	if !slices.Equal(is, want) {
		b.Fatalf("the collector has %q, want %q", is, want)
	}
	return all
}

func (b *bench) mark() store.TraceMark {
	b.Helper()
	m, err := b.st.TraceMark(b.Context(), 0)
	b.ok(err)
	return m
}

const callersTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestSpans: a run of a caller has a span below that of the caller, its tasks below it, and attempts below
// their tasks. The ids are those that tasks get.
func TestSpans(t *testing.T) {
	onStores(t, func(b *bench) {
		r := b.run(&dag.Fire{Trace: callersTrace})
		b.end(r, dag.RunFailed, 0, 1)
		b.step()
		all := b.has("default/w", "load", "load attempt", "check", "check attempt")
		run, load, check, attempt := all["default/w"], all["load"], all["check"], all["check attempt"]
		for name, s := range all {
			if s.TraceID != callersTrace[3:35] || s.Start > s.End {
				t.Errorf("%s is in trace %s, from %s to %s", name, s.TraceID, s.Start, s.End)
			}
		}
		if run.ParentID != callersTrace[36:52] || load.ParentID != run.SpanID || check.ParentID != run.SpanID || attempt.ParentID != check.SpanID {
			t.Errorf("the tree is wrong: %+v", all)
		}
		if len(check.Links) != 1 || check.Links[0].SpanID != load.SpanID || len(load.Links) != 0 {
			t.Errorf("links of check: %v, of load: %v", check.Links, load.Links)
		}
		if want := "00-" + attempt.TraceID + "-" + attempt.SpanID + "-01"; b.settings.Traceparent(&r.Header, 1, 1) != want {
			t.Errorf("the task gets %s, want %s", b.settings.Traceparent(&r.Header, 1, 1), want)
		}
		if run.Start != nanos(r.Created) || run.End != nanos(r.FinishedAt) || run.Status != (status{statusError, "it is over"}) || attempt.Status != (status{statusError, "exit 3"}) {
			t.Errorf("run %+v, attempt %+v", run, attempt)
		}
		texts := map[string]string{}
		for _, a := range attempt.Attributes {
			for _, v := range []*string{a.Value.Text, a.Value.Number} {
				if v != nil {
					texts[a.Key] = *v
				}
			}
		}
		want := map[string]string{"skein.workflow": "default/w", "skein.run.id": r.ID.String(), "skein.task": "check", "skein.attempt": "1", "skein.attempt.state": "failed",
			"skein.node": "node", "process.exit.code": "3"}
		if !maps.Equal(texts, want) {
			t.Errorf("attributes %v, want %v", texts, want)
		}
	})
}

// TestLinked: each attempt is a trace of its own, with a link to the span of its run.
func TestLinked(t *testing.T) {
	onStores(t, func(b *bench) {
		b.settings.Mode = ModeLinked
		b.fresh()
		r := b.run(nil)
		b.end(r, dag.RunSucceeded, 0, 1)
		b.step()
		all := b.has("default/w", "load attempt", "check attempt")
		run, load, check := all["default/w"], all["load attempt"], all["check attempt"]
		if load.TraceID == run.TraceID || load.TraceID == check.TraceID || load.ParentID != "" || len(load.Links) != 1 || load.Links[0] != (link{run.TraceID, run.SpanID}) {
			t.Errorf("run %+v, attempt %+v", run, load)
		}
		if want := "00-" + load.TraceID + "-" + load.SpanID + "-01"; b.settings.Traceparent(&r.Header, 0, 1) != want {
			t.Errorf("the task gets %s, want %s", b.settings.Traceparent(&r.Header, 0, 1), want)
		}
	})
}

// TestGenerations: each end of a recovered run has a span with the attempts of its own, and a link to the
// previous end, whether the writer reported the end or the exporter found it in the rows.
func TestGenerations(t *testing.T) {
	for _, told := range []bool{true, false} {
		onStores(t, func(b *bench) {
			r := b.run(nil)
			if !told {
				b.x = nil
			}
			b.end(r, dag.RunFailed, 0)
			b.again(r)
			b.end(r, dag.RunSucceeded, 1)
			if !told {
				b.fresh()
			}
			b.step()
			b.mu.Lock()
			defer b.mu.Unlock()
			first, second := b.came[runSpan(r.ID, 1).String()], b.came[runSpan(r.ID, 2).String()]
			if len(b.came) != 6 || first.Status.Code != statusError || second.Status.Code != statusOK || len(first.Links) != 0 || len(second.Links) != 1 ||
				second.Links[0].SpanID != first.SpanID || second.Start <= first.End {
				t.Errorf("told %v: %d spans, first %+v, second %+v", told, len(b.came), first, second)
			}
			if s := b.came[taskSpan(r.ID, 2, 1).String()]; s.ParentID != second.SpanID || b.came[taskSpan(r.ID, 1, 0).String()].ParentID != first.SpanID {
				t.Errorf("told %v: the task of the second generation is below %s", told, s.ParentID)
			}
		})
	}
}

// TestChild: a called run is in the trace of the run that called it, below the attempt of the call.
func TestChild(t *testing.T) {
	onStores(t, func(b *bench) {
		parent := b.run(nil)
		b.end(parent, dag.RunFailed, 0, 1)
		child := b.run(&dag.Fire{Parent: &dag.Parent{Task: 1, Line: []dag.Ancestor{{Run: parent.ID, Workflow: 1}}}})
		b.end(child, dag.RunSucceeded)
		b.step()
		if s := b.came[runSpan(child.ID, 1).String()]; s.TraceID != traceOf(parent.ID, "").String() || s.ParentID != attemptSpan(parent.ID, 1, 1).String() {
			t.Errorf("the child's span is %+v", s)
		}
	})
}

// TestCrash: an exporter that begins after a crash exports what the position does not cover, under the same
// ids. Nothing before the position is sent again.
func TestCrash(t *testing.T) {
	onStores(t, func(b *bench) {
		b.end(b.run(nil), dag.RunSucceeded, 0)
		b.step()
		b.end(b.run(nil), dag.RunSucceeded, 0)
		b.take() // the former owner dies: it has exported the second run, but its position is refused
		if err := b.x.step(t.Context()); err != nil || len(b.came) != 6 {
			t.Fatalf("%d spans: %v", len(b.came), err)
		}
		b.fresh()
		b.end(b.run(nil), dag.RunSucceeded, 0)
		b.step()
		if len(b.came) != 9 || b.twice != 3 {
			t.Errorf("%d spans, %d came again; want 9 and the 3 of the second run", len(b.came), b.twice)
		}
		if m := b.mark(); m.Seq != b.fence.Seq {
			t.Errorf("the position is %d, want %d", m.Seq, b.fence.Seq)
		}
	})
}

// TestFirstPosition: runs that ended before the setting are not exported.
func TestFirstPosition(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	b.take()
	b.commit(&store.Batch{})
	b.fresh()
	if m := b.mark(); m.Seq != b.fence.Seq || len(b.came) != 0 {
		t.Errorf("position %d, %d spans", m.Seq, len(b.came))
	}
}

// TestFreshDatabase: runs of a database without a position that end before the first look of the exporter are
// exported.
func TestFreshDatabase(t *testing.T) {
	b := emptyBench(t, memory.New(memory.Options{}))
	b.exporter()
	b.end(b.run(nil), dag.RunSucceeded)
	b.end(b.run(nil), dag.RunSucceeded)
	b.step()
	if len(b.came) != 2 || b.mark().Seq != b.fence.Seq {
		t.Errorf("%d spans came, the position is %d of %d", len(b.came), b.mark().Seq, b.fence.Seq)
	}
}

// TestCollectorAway: a collector that does not answer delays nothing else. Ends that do not fit into the
// queue are found in the rows, and every run is exported once the collector answers.
func TestCollectorAway(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	tries := 0
	b.answer = func(w http.ResponseWriter, _ []span) bool {
		if tries++; tries < 4 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnauthorized}[tries-1])
			return false
		}
		return true
	}
	const runs = 120
	for range runs {
		b.end(b.run(nil), dag.RunSucceeded)
	}
	for range queueMax { // the queue is full, and drops the ends of the shard
		b.x.Ended([]store.Ended{{Fence: store.Fence{Shard: 0, Epoch: b.fence.Epoch, Seq: b.fence.Seq}, ID: dag.RunID{9}}})
	}
	if !b.x.lost[0] || b.x.all > queueMax {
		t.Fatalf("%d ends are held", b.x.all)
	}
	b.step()
	if len(b.came) != runs || b.waits < 3 || b.x.stats.failed.Load() != 3 || b.x.stats.runs[outSent].Load() != runs {
		t.Errorf("%d spans after %d waits, %d failures", len(b.came), b.waits, b.x.stats.failed.Load())
	}
	hangs, stop := context.WithCancel(t.Context())
	b.answer = func(http.ResponseWriter, []span) bool { stop(); return false }
	b.x.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	b.end(b.run(nil), dag.RunSucceeded)
	if err := b.x.step(hangs); !errors.Is(err, context.Canceled) || b.x.stats.waiting.Load() == 0 {
		t.Errorf("a step whose node ends: %v, waiting since %d", err, b.x.stats.waiting.Load())
	}
	b.answer = nil
	b.step()
	if len(b.came) != runs+1 {
		t.Errorf("%d spans", len(b.came))
	}
}

// TestRefused: spans that are too many for one request are sent in smaller ones. Those that the collector
// cannot read are dropped and counted, and delay nothing.
func TestRefused(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	b.answer = func(w http.ResponseWriter, spans []span) bool {
		if len(spans) > 2 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return len(spans) <= 2
	}
	b.end(b.run(nil), dag.RunFailed, 0, 1)
	b.step()
	b.has("default/w", "load", "load attempt", "check", "check attempt")
	b.answer = func(w http.ResponseWriter, _ []span) bool { w.WriteHeader(http.StatusBadRequest); return false }
	b.end(b.run(nil), dag.RunFailed, 0)
	b.step()
	b.answer = func(w http.ResponseWriter, _ []span) bool {
		_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"no"}}`)
		return false
	}
	b.end(b.run(nil), dag.RunFailed, 0)
	b.step()
	s := &b.x.stats
	if s.sent.Load() != 6 || s.rejected.Load() != 5 || s.runs[outRejected].Load() != 2 || b.mark().Seq != b.fence.Seq {
		t.Errorf("%d sent, %d rejected, %d runs", s.sent.Load(), s.rejected.Load(), s.runs[outRejected].Load())
	}
}

// TestSample: the flag of a caller decides for its runs, and the id of the trace for the others, so that a
// call tree is exported as a whole or not at all.
func TestSample(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	b.settings.Sample = 0
	b.fresh()
	b.end(b.run(nil), dag.RunSucceeded)
	b.end(b.run(&dag.Fire{Trace: callersTrace}), dag.RunSucceeded)
	b.step()
	b.has("default/w")
	if n := b.x.stats.runs[outUnsampled].Load(); n != 1 {
		t.Errorf("%d unsampled", n)
	}
	s, n := Settings{Sample: 0.25}, 0
	for i := range 4000 {
		id := dag.RunID{byte(i), byte(i >> 8)}
		h := dag.Header{ID: dag.RunID{7}, Fire: &dag.Fire{Parent: &dag.Parent{Line: []dag.Ancestor{{Run: id}}}}}
		is := s.sampled(id, "")
		if is != s.sampled(h.Root(), h.Trace()) || is != strings.HasSuffix(s.Traceparent(&h, 0, 1), "-01") {
			t.Fatal("a child is sampled differently")
		}
		if is {
			n++
		}
	}
	if n < 800 || n > 1200 || s.sampled(dag.RunID{}, strings.TrimSuffix(callersTrace, "1")+"0") {
		t.Errorf("%d of 4000 at 0.25", n)
	}
}

// TestHeaders: the headers of the file are sent. A file that others can read is refused, and the runs wait.
func TestHeaders(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	b.settings.HeadersFile = filepath.Join(t.TempDir(), "headers")
	write := func(text string, mode os.FileMode) {
		b.ok(os.WriteFile(b.settings.HeadersFile, []byte(text), 0o600))
		b.ok(os.Chmod(b.settings.HeadersFile, mode))
	}
	write("# of the collector\nAuthorization: Bearer word\n", 0o600)
	b.fresh()
	b.end(b.run(nil), dag.RunSucceeded)
	b.step()
	if b.header.Get("Authorization") != "Bearer word" {
		t.Errorf("headers %v", b.header)
	}
	for text, mode := range map[string]os.FileMode{"Authorization: Bearer word\n": 0o644, "Bearer word\n": 0o600} {
		write(text, mode)
		if _, err := b.x.post(t.Context(), nil); err == nil || strings.Contains(err.Error(), "word") {
			t.Errorf("%q with mode %o: %v", text, mode, err)
		}
	}
}

// TestParse: ParseURL refuses a text that is not the address of a collector. ParseSample refuses a number
// outside of 0 to 1.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{"http://c:4318": "http://c:4318/v1/traces", "https://c/x/": "https://c/x/", "c:4318": "", "ftp://c": "", "http://u:p@c": "", "http://c/?q": ""} {
		if is, err := ParseURL(text); is != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", text, is, err)
		}
	}
	for text, good := range map[string]bool{"0": true, "0.1": true, "1": true, "NaN": false, "-1": false, "2": false, "x": false} {
		if _, err := ParseSample(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestBroken: a collector that answers one span with 500 for ever does not delay the other spans, nor later
// runs. Without the bound, the test does not end.
func TestBroken(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	b.answer = func(w http.ResponseWriter, spans []span) bool {
		bad := slices.ContainsFunc(spans, func(s span) bool { return s.Name == "check" })
		if bad {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return !bad
	}
	b.end(b.run(nil), dag.RunFailed, 0, 1)
	b.step()
	b.has("default/w", "load", "load attempt", "check attempt")
	if rejected, waits := b.x.stats.rejected.Load(), b.waits; rejected != 1 || waits < brokenProbe-1 || waits >= brokenMax {
		t.Errorf("%d spans rejected, after %d waits", rejected, waits)
	}
}

// TestBrokenForEver: a collector that answers everything with 500 gets some ten minutes for the first
// spans, and a minute for their halves. Then one answer is enough to drop later spans, until the
// collector takes some.
func TestBrokenForEver(t *testing.T) {
	b := newBench(t, memory.New(memory.Options{}))
	slept := time.Duration(0)
	b.x.sleep = func(_ context.Context, d time.Duration) error { slept += d; return nil }
	b.answer = func(w http.ResponseWriter, _ []span) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return false
	}
	for range 200 {
		b.end(b.run(nil), dag.RunFailed, 0, 1)
	}
	b.step()
	if rejected := b.x.stats.rejected.Load(); rejected != 1000 || slept > 12*time.Minute+halvesMax {
		t.Fatalf("%d spans rejected, after %s", rejected, slept)
	}
	slept, b.calls = 0, 0
	b.end(b.run(nil), dag.RunSucceeded)
	b.step()
	if b.calls != 1 || slept > 0 || b.x.stats.rejected.Load() != 1001 {
		t.Errorf("a later run took %d calls and %s", b.calls, slept)
	}
	b.answer = nil
	b.end(b.run(nil), dag.RunSucceeded)
	b.step()
	b.calls = 0
	b.answer = func(w http.ResponseWriter, _ []span) bool {
		if b.calls < 4 {
			w.WriteHeader(http.StatusInternalServerError)
		}
		return b.calls >= 4
	}
	b.end(b.run(nil), dag.RunSucceeded)
	b.step()
	if len(b.came) != 2 || b.calls != 4 || b.x.stats.rejected.Load() != 1001 {
		t.Errorf("%d spans came, %d rejected", len(b.came), b.x.stats.rejected.Load())
	}
}
