package server_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/server"
	api "skein.dev/skein/sdk/api/v1"
)

// longLog is a log with an error in every tenth of it, and a warning at the end.
func longLog() string {
	var b strings.Builder
	for i := range 10 {
		for range 20_000 {
			b.WriteString("all is well here\n")
		}
		fmt.Fprintf(&b, "ERROR number %d\n", i)
	}
	b.WriteString("a warning\n")
	return b.String()
}

// TestLogIndex: the stored index of an ended attempt describes its log. The server repairs an index that is
// damaged, cut or missing. The index finds lines and instants.
func TestLogIndex(t *testing.T) {
	text := longLog()
	began := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	var x logindex.Index
	for at := 0; at < len(text); at += logindex.Block {
		x.Add([]byte(text[at:min(len(text), at+logindex.Block)]), began.Add(time.Duration(at/logindex.Block)*time.Second).UnixMicro())
	}
	records := x.Records()
	for name, stored := range map[string][]byte{"whole": records, "damaged": append(slices.Clone(records[:30]), make([]byte, 500)...), "missing": nil} {
		b := newBed(t, false)
		b.apply("w")
		run := b.run("w")
		a := <-b.exec.got
		ref := server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}
		b.logs.index[ref] = stored
		b.logs.add(ref, text)
		b.exec.end(a, dag.Result{State: dag.AttemptFailed, Message: "exit code 1"})
		path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
		eventually(t, "the attempt ends", func() bool { return strings.Contains(b.get("/api/v1/runs/"+run.ID+"/tasks/a").body, `"failed"`) })
		var got api.LogIndex
		if err := json.Unmarshal([]byte(b.get(path+"/index").body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Bytes != int64(len(text)) || got.Lines == nil || *got.Lines != 200_011 || *got.Errors != 10 || *got.Warnings != 1 {
			t.Errorf("%s: %+v", name, got)
		}
		if len(got.First) != 10 || *got.First[9].Line != 200_010 || got.First[9].Text != "ERROR number 9" {
			t.Errorf("%s: the first errors: %+v", name, got.First)
		}
		if n := len(got.Marks); n != (len(text)+logindex.Block-1)/logindex.Block || got.Marks[1].Line != int64(strings.Count(text[:logindex.Block], "\n"))+1 || (got.Marks[n-2].At != nil) != (name == "whole") {
			t.Errorf("%s: %d marks, the second is %+v, the last %+v", name, n, got.Marks[1], got.Marks[n-2])
		}
		if puts := map[string]int{"whole": 0, "damaged": 1, "missing": 1}[name]; b.logs.puts != puts || len(b.logs.index[ref]) < len(records)-2*logindex.RecordSize {
			t.Errorf("%s: %d indexes were stored, the last has %d bytes", name, b.logs.puts, len(b.logs.index[ref]))
		}
		if got := b.get(path + "?line=200010&limit=14"); got.body != "ERROR number 9" || got.header.Get("Skein-Log-Line") != "200010" {
			t.Errorf("%s: line 200010 is %q, %v", name, got.body, got.header)
		}
		at := b.get(path + "?limit=5&time=" + began.Add(40*time.Second+time.Millisecond).Format(time.RFC3339Nano))
		if want := fmt.Sprint(40 * logindex.Block); name == "whole" && at.header.Get("Skein-Log-Offset") != want {
			t.Errorf("%s: %q, not %s", name, at.header.Get("Skein-Log-Offset"), want)
		}
		if got := b.get(path + "/search?level=error&limit=3").body; !strings.Contains(got, `"text":"ERROR number 2"`) || !strings.HasSuffix(got, fmt.Sprintf(`"next":%d}}`+"\n", strings.Index(text, "ERROR number 3"))) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestRunLogSearch: a search through a run finds the lines of all its attempts, and continues where it has
// ended, also within a log.
func TestRunLogSearch(t *testing.T) {
	b := newBed(t, false)
	b.put("w", "name: w\ntasks:\n  a: {run: \"true\", retry: {max: 1, delay: 0s}}\n  b: {needs: a, run: \"true\"}\n  c: {run: \"true\"}\n")
	run := b.run("w")
	want := []string{"a 1 1", "a 1 3", "a 2 1", "b 1 1", "b 1 2"}
	for range 4 {
		a := <-b.exec.got
		name := [...]string{"a", "b", "c"}[a.Task]
		lines := ""
		for _, w := range want {
			var task string
			var token, line int
			if _, err := fmt.Sscan(w, &task, &token, &line); err != nil {
				t.Fatal(err)
			}
			for ; task == name && token == int(a.Token) && strings.Count(lines, "\n") < line; lines += map[bool]string{true: "an error\n", false: "nothing\n"}[strings.Count(lines, "\n") == line-1] {
			}
		}
		if name != "c" {
			b.logs.add(server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: name, Attempt: a.Token}, lines)
		}
		r := succeeded()
		if name == "a" && a.Token == 1 {
			r = dag.Result{State: dag.AttemptFailed, Message: "exit code 1"}
		}
		b.exec.end(a, r)
	}
	eventually(t, "the run ends", func() bool { return b.ended(run.ID) })
	path := "/api/v1/runs/" + run.ID + "/logs/search"
	for query, want := range map[string][]string{"q=error": want, "level=error&limit=2": want, "q=^an&re=true&limit=1": want,
		"level=error&failed=true": want[:2], "q=error&task=b&limit=1": want[3:], "q=not there": nil} {
		var found []string
		for after, n := "", 0; ; n++ {
			got := b.get(path + "?" + strings.ReplaceAll(query, " ", "%20") + "&after=" + after)
			if got.status != 200 || n > 6 {
				t.Fatalf("%s: %d %s", query, got.status, got.body)
			}
			var end *api.RunLogSearchEnd
			for line := range strings.Lines(got.body) {
				var l api.RunLogSearch
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				if l.Hit != nil {
					found = append(found, fmt.Sprint(*l.Hit.Task, *l.Hit.Attempt, *l.Hit.Line))
				}
				end = l.End
			}
			if end == nil {
				t.Fatalf("%s: no end: %s", query, got.body)
			}
			if end.Next == nil {
				break
			}
			after = *end.Next
		}
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], " ", "")
		}
		for i := range found {
			found[i] = strings.ReplaceAll(found[i], " ", "")
		}
		if !slices.Equal(found, want) {
			t.Errorf("%s: %v, want %v", query, found, want)
		}
	}
	wantProblem(t, b.get(path+"?q=a&after=x"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path+"?q=a&after=1.2.3.4.5"), 422, api.ProblemInvalid)
	wantProblem(t, b.get(path), 422, api.ProblemInvalid)
}

// TestLogIndexOfLostBytes: a log whose first part is lost after it was described is read as before, and its
// lines have no numbers where they cannot be counted.
func TestLogIndexOfLostBytes(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	text := longLog()
	b.logs.add(server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}, text)
	path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
	if got := want[api.LogIndex](t, b.get(path+"/index"), 200); got.Lines == nil {
		t.Fatalf("%+v", got)
	}
	b.logs.mu.Lock()
	b.logs.gone = 100_000
	b.logs.mu.Unlock()
	if got := b.get(path); got.status != 200 || !strings.HasSuffix(got.body, text[100_000:]) || got.header.Get("Skein-Log-Line") != "" {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	if got := b.get(path + "/search?level=error&limit=1"); got.status != 200 || !strings.Contains(got.body, `"offset":340000`) {
		t.Errorf("%d %s", got.status, got.body)
	}
	wantProblem(t, b.get(path+"?line=5"), 404, api.ProblemNotFound)
}

// TestLogIndexWhileGrowing: a log that grows between any two reads of its size has an index, lines and hits
// with numbers.
func TestLogIndexWhileGrowing(t *testing.T) {
	b := newBed(t, false)
	b.apply("w")
	run := b.run("w")
	a := <-b.exec.got
	ref := server.LogRef{Namespace: "default", Workflow: "w", Run: a.Run, Task: "a", Attempt: 1}
	b.logs.add(ref, longLog())
	b.logs.mu.Lock()
	b.logs.more = strings.Repeat("one more error\n", 8)
	b.logs.mu.Unlock()
	path := "/api/v1/runs/" + run.ID + "/tasks/a/logs"
	if got := b.get(path + "?line=200010&limit=14"); got.body != "ERROR number 9" {
		t.Errorf("line 200010: %d %.200s", got.status, got.body)
	}
	got := want[api.LogIndex](t, b.get(path+"/index"), 200)
	if got.Lines == nil {
		t.Fatalf("%+v", got)
	}
	if more := *got.Lines - 200_011; *got.Errors != 10+more || got.Bytes != int64(len(longLog()))+15*more {
		t.Errorf("%d bytes, %d lines, %d errors", got.Bytes, *got.Lines, *got.Errors)
	}
	var hit api.LogSearch
	first, _, _ := strings.Cut(b.get(path+"/search?level=error&limit=1&after=3000000").body, "\n")
	if err := json.Unmarshal([]byte(first), &hit); err != nil || hit.Hit == nil || hit.Hit.Line == nil || *hit.Hit.Line != 180_009 {
		t.Error(first, err)
	}
	// Blocks that the writer has described in the meantime must not be counted again.
	b.logs.mu.Lock()
	b.logs.more = ""
	b.logs.mu.Unlock()
	b.logs.add(ref, longLog()+longLog())
	b.logs.mu.Lock()
	var x logindex.Index
	x.Add(b.logs.text[ref], 1)
	b.logs.index[ref] = x.Records()
	lines := strings.Count(string(b.logs.text[ref]), "\n")
	b.logs.mu.Unlock()
	if got := b.get(path + "?offset=-5").header.Get("Skein-Log-Line"); got != fmt.Sprint(lines) {
		t.Errorf("the last line has the number %q, want %d", got, lines)
	}
}
