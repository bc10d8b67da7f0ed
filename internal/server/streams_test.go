package server_test

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/server"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// next takes changes until one says that its run has ended.
func untilEnd(t *testing.T, next func() (api.Change, error, bool)) (all []api.Change) {
	t.Helper()
	for {
		c, err, ok := next()
		if err != nil || !ok {
			t.Fatalf("the stream ended: %v", err)
		}
		all = append(all, c)
		for _, e := range c.Events {
			if e.Kind == "state" && *e.State != "paused" {
				return all
			}
		}
	}
}

func (b *bed) watch(q skein.WatchQuery) (next func() (api.Change, error, bool), stop func()) {
	b.t.Helper()
	w, err := b.client.Watch(b.t.Context(), q)
	if err != nil {
		b.t.Fatal(err)
	}
	next, done := iter.Pull2(w.Changes())
	return next, func() { w.Close(); done() }
}

func TestEvents(t *testing.T) {
	b := newBed(t, true)
	b.apply("one")
	b.apply("two")
	all, stopAll := b.watch(skein.WatchQuery{})
	defer stopAll()
	two, stopTwo := b.watch(skein.WatchQuery{Workflows: []string{"two"}})
	defer stopTwo()
	first := b.run("one")
	second := b.run("two")
	changes := untilEnd(t, all)
	if c := changes[0]; c.Run != first.ID || c.Workflow != "one" || c.Events[0].Kind != "submitted" || c.ID == "" || c.Seq == 0 {
		t.Errorf("%+v", c)
	}
	for _, c := range untilEnd(t, all) {
		if c.Run != second.ID {
			t.Errorf("%+v", c)
		}
	}
	for _, c := range untilEnd(t, two) {
		if c.Workflow != "two" {
			t.Errorf("%+v", c)
		}
	}
	// The stream of a single run sends the missed events again. A client of any other stream must read the state
	// again.
	var seen []int64
	replay, stop := b.watch(skein.WatchQuery{Runs: []string{first.ID}, After: changes[0].ID})
	defer stop()
	for _, c := range untilEnd(t, replay) {
		seen = append(seen, c.Seq)
	}
	var wanted []int64
	for _, c := range changes[1:] {
		wanted = append(wanted, c.Seq)
	}
	if !slices.Equal(seen, wanted) {
		t.Errorf("replayed %v, want %v", seen, wanted)
	}
	for _, q := range []skein.WatchQuery{{After: "1"}, {Runs: []string{first.ID}, After: "not ours"}, {Workflows: []string{"one"}, After: "1"}} {
		next, stop := b.watch(q)
		if c, err, _ := next(); err != nil || !c.Reset {
			t.Errorf("%+v: %+v %v", q, c, err)
		}
		stop()
	}
	wantProblem(t, b.get("/api/v1/events?run=nonsense"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/events?workflow=none"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/events?topics=moon:full"), 422, api.ProblemInvalid)
	if _, err := b.client.Watch(t.Context(), skein.WatchQuery{Workflows: []string{"none"}}); !errors.Is(err, skein.ErrNotFound) {
		t.Error(err)
	}
}

func TestEventsEndWithTheNode(t *testing.T) {
	b := newBed(t, true)
	resp := must(b.http.Client().Get(b.http.URL + "/api/v1/events"))
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if line := must(lines.ReadString('\n')); !strings.HasPrefix(line, ":") || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q %v", line, resp.Header)
	}
	b.stop()
	if rest, err := io.ReadAll(lines); err != nil {
		t.Errorf("%q %v", rest, err)
	}
	b.start()
}

func TestLogs(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	ref := server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}
	path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
	if got := b.get(path); got.status != 200 || got.body != "" || got.header.Get("Skein-Attempt") != "1" {
		t.Errorf("%d %q %v", got.status, got.body, got.header)
	}
	b.logs.add(ref, "0123456789\xff\x00\n")
	const text = "0123456789\xff\x00\n"
	for query, wanted := range map[string]string{"": text, "?offset=4": text[4:], "?offset=-3": text[10:], "?offset=-300": text, "?offset=2&limit=3": "234",
		"?offset=99": "", "?attempt=1": text} {
		if got := b.get(path + query); got.status != 200 || got.body != wanted {
			t.Errorf("%s: %d %q", query, got.status, got.body)
		}
	}
	if got := b.get(path + "?offset=-3"); got.header.Get("Skein-Log-Offset") != "10" || got.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%v", got.header)
	}
	wantProblem(t, b.get(path+"?attempt=2"), 404, api.ProblemNotFound)
	wantProblem(t, b.get("/api/v1/runs/"+run.ID+"/tasks/b/logs"), 404, api.ProblemNotFound)
	b.exec.end(a, succeeded())
	want[api.Task](t, b.get("/api/v1/runs/"+run.ID+"/tasks/a"), 200)
	<-b.exec.got // the task after a has started, so the end of a is on the disk
	part := b.get(path, "Range", "bytes=2-4")
	if part.status != http.StatusPartialContent || part.body != "234" || part.header.Get("Content-Range") != "bytes 2-4/13" {
		t.Errorf("%d %q %v", part.status, part.body, part.header)
	}
	if whole := b.get(path); whole.body != text || whole.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("%q %v", whole.body, whole.header)
	}
}

// A search returns the lines with the text, and how the log ended. A read can begin at a line.
func TestLogSearch(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
	if got := b.get(path + "/search?q=x"); got.body != `{"end":{"bytes":0,"hits":0,"more":false,"lines":null,"next":null}}`+"\n" {
		t.Errorf("of an empty log: %d %s", got.status, got.body)
	}
	b.logs.add(server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}, "one\n\xff An Error\ntwo\nerror\n")
	second, fourth := `{"hit":{"line":2,"offset":4,"text":"� An Error","at":5,"length":5}}`+"\n", `{"hit":{"line":4,"offset":19,"text":"error","at":0,"length":5}}`+"\n"
	for query, wanted := range map[string]string{
		"q=error":                     second + fourth + `{"end":{"bytes":25,"hits":2,"more":false,"lines":4,"next":null}}` + "\n",
		"q=error&case=true":           fourth + `{"end":{"bytes":25,"hits":1,"more":false,"lines":4,"next":null}}` + "\n",
		"q=err.r$&re=true&after=4":    second + fourth + `{"end":{"bytes":25,"hits":2,"more":false,"lines":4,"next":null}}` + "\n",
		"level=error&after=19":        strings.Replace(fourth, `"length":5`, `"length":0`, 1) + `{"end":{"bytes":25,"hits":1,"more":false,"lines":4,"next":null}}` + "\n",
		"q=t&level=warning&case=true": `{"end":{"bytes":25,"hits":0,"more":false,"lines":4,"next":null}}` + "\n",
		"q=error&limit=1":             second + `{"end":{"bytes":25,"hits":1,"more":true,"lines":null,"next":19}}` + "\n",
	} {
		got := b.get(path + "/search?" + query)
		if got.status != 200 || got.header.Get("Content-Type") != "application/x-ndjson" || got.body != wanted {
			t.Errorf("%s: %d %v %s", query, got.status, got.header, got.body)
		}
	}
	if got := b.get(path + "?line=3&limit=3"); got.body != "two" || got.header.Get("Skein-Log-Offset") != "15" || got.header.Get("Skein-Log-Line") != "3" {
		t.Errorf("line 3: %d %q %v", got.status, got.body, got.header)
	}
	wantProblem(t, b.get(path+"?line=5"), 404, api.ProblemNotFound)
	wantProblem(t, b.get(path+"/search?q=a%0Ab"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"?time=2026-01-31T12:00:00Z"), 404, api.ProblemNotFound)
	wantProblem(t, b.get(path+"?time=noon"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"/search"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"/search?re=true&level=error"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"/search?re=true&q=a(b"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"/search?q=a&attempt=7"), 404, api.ProblemNotFound)
}

// A log whose beginning is not kept says so, and the kept rest keeps its offsets.
func TestCutLogs(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	ref := server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}
	text := strings.Repeat("0123456789", 30) + "\n"
	b.logs.add(ref, text)
	b.logs.gone = 200
	const mark = "[skein: the first 200 bytes of this log are not kept]\n"
	begin := strconv.Itoa(200 - len(mark))
	path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
	check := func() {
		t.Helper()
		for query, wanted := range map[string][2]string{"": {mark + text[200:], begin}, "?offset=3": {mark + text[200:], begin},
			"?offset=190": {mark[len(mark)-10:] + text[200:], "190"}, "?offset=250": {text[250:], "250"}, "?offset=-5": {text[296:], "296"},
			"?offset=-280": {mark + text[200:], begin}, "?offset=1&limit=7": {mark[:7], begin}, "?offset=198&limit=7": {kept(mark, 2) + text[200:205], "198"}} {
			if got := b.get(path + query); got.status != 200 || got.body != wanted[0] || got.header.Get("Skein-Log-Offset") != wanted[1] {
				t.Errorf("%s: %d %q from %s, want %q", query, got.status, got.body, got.header.Get("Skein-Log-Offset"), wanted)
			}
		}
	}
	check()
	l := must(b.client.Logs(t.Context(), run.ID, "a", skein.LogQuery{Follow: true}))
	defer l.Close()
	b.exec.end(a, succeeded())
	<-b.exec.got // the task after a has started, so the end of a is on the disk
	check()
	b.logs.gone, b.logs.goes = 0, 200
	if got := b.get(path + "?offset=3"); got.body != mark+text[200:] {
		t.Errorf("gone while it is read: %q", got.body)
	}
	if all := string(must(io.ReadAll(l))); all != mark+text[200:] {
		t.Errorf("followed: %q", all)
	}
}

func kept(s string, n int) string { return s[len(s)-n:] }

func TestFollowedLogs(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	ref := server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}
	l := must(b.client.Logs(t.Context(), run.ID, "a", skein.LogQuery{Follow: true}))
	defer l.Close()
	d := must(b.client.Logs(t.Context(), run.ID, "d", skein.LogQuery{Follow: true})) // not started yet
	defer d.Close()
	lines := bufio.NewReader(l)
	b.logs.add(ref, "one\n")
	if line := must(lines.ReadString('\n')); line != "one\n" {
		t.Errorf("%q", line)
	}
	b.logs.add(ref, "two\nend")
	b.exec.end(a, succeeded())
	if rest := string(must(io.ReadAll(lines))); rest != "two\nend" || l.Attempt != 1 {
		t.Errorf("%q", rest)
	}
	for range 2 {
		b.exec.end(<-b.exec.got, succeeded())
	}
	last := <-b.exec.got
	b.logs.add(server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "d", Attempt: 1}, "d says")
	b.exec.end(last, succeeded())
	if text := string(must(io.ReadAll(d))); text != "d says" || d.Attempt != 1 {
		t.Errorf("%q", text)
	}
}

// TestFollowingAnAttemptThatIsShort checks that the log of an attempt that begins and ends between two reads
// of the server is sent.
func TestFollowingAnAttemptThatIsShort(t *testing.T) {
	b := &bed{t: t, dir: t.TempDir(), frozen: &frozen{}, logs: &logs{text: map[server.LogRef][]byte{}}}
	b.start()
	t.Cleanup(func() { b.stop() })
	b.apply("w")
	run := b.run("w")
	first := <-b.exec.got
	ended := func() {
		b.exec.end(first, succeeded())
		for range 2 {
			b.exec.end(<-b.exec.got, succeeded())
		}
		b.logs.add(server.LogRef{Namespace: "default", Workflow: "w", Run: first.Run, Task: "d", Attempt: 1}, "d says")
		b.exec.end(<-b.exec.got, succeeded())
		for row := (dag.RunRow{}); !row.State.Terminal(); time.Sleep(time.Millisecond) {
			row = must(b.engine.RunRow(t.Context(), first.Run))
		}
	}
	b.frozen.mu.Lock()
	b.frozen.attempts = ended
	b.frozen.mu.Unlock()
	d := must(b.client.Logs(t.Context(), run.ID, "d", skein.LogQuery{Follow: true}))
	defer d.Close()
	if text := string(must(io.ReadAll(d))); text != "d says" || d.Attempt != 1 {
		t.Errorf("%q, attempt %d", text, d.Attempt)
	}
}

// If a task can never start, the follow of its log ends.
func TestFollowingATaskThatNeverStarts(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	l := must(b.client.Logs(t.Context(), run.ID, "d", skein.LogQuery{Follow: true}))
	defer l.Close()
	b.exec.end(a, dag.Result{State: dag.AttemptFailed, Cause: dag.CauseExit, ExitCode: 1})
	if text := must(io.ReadAll(l)); len(text) != 0 {
		t.Errorf("%q", text)
	}
	wantProblem(t, b.get("/api/v1/runs/"+run.ID+"/tasks/d/logs?follow=true"), 404, api.ProblemNotFound)
}

// A watcher that does not read its events delays no other watcher, and is told to read the state again.
func TestSlowWatchersAreReset(t *testing.T) {
	b := newBed(t, true)
	w := b.apply("w")
	// There is no socket, so nothing is buffered.
	c := must(skein.New("localhost", skein.WithHandler(auth.AsLocal(b.srv.Handler()))))
	stream := must(c.Watch(t.Context(), skein.WatchQuery{}))
	defer stream.Close()
	wf := must(b.engine.Workflow(t.Context(), "default", "w"))
	subs := make([]engine.Submission, 1500)
	for i := range subs {
		subs[i] = engine.Submission{Workflow: wf, Version: w.Version, User: "u"}
	}
	if _, err := b.engine.SubmitAll(t.Context(), subs); err != nil {
		t.Fatal(err)
	}
	for change, err := range stream.Changes() {
		if err != nil {
			t.Fatal(err)
		}
		if change.Reset {
			return
		}
	}
	t.Error("no reset")
}
