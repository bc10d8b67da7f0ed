//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// handlers has the task functions of TestHandlers, and the values that they record.
type handlers struct {
	begun chan *skein.Task // the tasks that the kind wait has begun
	open  chan struct{}    // lets the tasks of wait end
	ended chan error       // why the context of stuck ended
	keys  sync.Map         // idempotency key of flaky → attempt
}

type named struct {
	Name string `json:"name"`
}

type numbered struct {
	N    int     `json:"n"`
	F    float64 `json:"f"`
	Seen string  `json:"seen"`
}

func (h *handlers) register(w *skein.Worker) {
	skein.Handle(w, "count", func(_ context.Context, t *skein.Task, in map[string]any) (numbered, error) {
		fmt.Fprintf(t, "of %s, attempt %d, lock %d\n", t.Workflow, t.Attempt, t.LockToken)
		return numbered{len(in), 3, fmt.Sprint(in["n"], " ", in["deep"], " ", t.Instant.Year() > 2000)}, nil
	})
	skein.Handle(w, "flaky", func(_ context.Context, t *skein.Task, _ named) (struct{}, error) {
		if _, again := h.keys.LoadOrStore(t.IdempotencyKey, t.Attempt); !again {
			return struct{}{}, errors.New("not now")
		}
		return struct{}{}, nil
	})
	skein.Handle(w, "never", func(_ context.Context, _ *skein.Task, in named) (struct{}, error) {
		return struct{}{}, fmt.Errorf("asked: %w", skein.Permanent(errors.New(in.Name+" is gone")))
	})
	skein.Handle(w, "panics", func(context.Context, *skein.Task, struct{}) (struct{}, error) { panic("over there") })
	skein.Handle(w, "wait", func(ctx context.Context, t *skein.Task, _ struct{}) (named, error) {
		h.begun <- t
		select {
		case <-ctx.Done():
			return named{}, context.Cause(ctx)
		case <-h.open:
			return named{"waited"}, t.Progress(1, 1, "done")
		}
	})
	skein.HandleSplitter(w, "fleet.plan", plan(machines{"a": 1, "b": 2, "c": 1}))
	skein.Handle(w, "stuck", func(ctx context.Context, t *skein.Task, _ struct{}) (struct{}, error) {
		h.begun <- t
		<-ctx.Done()
		h.ended <- context.Cause(ctx)
		return struct{}{}, t.Progress(0, 1, "")
	})
}

// working starts a worker in this process. The returned function ends it in order.
func (f *flight) working(h *handlers, name string) func() {
	f.t.Helper()
	var urls []string
	for _, m := range f.members {
		urls = append(urls, m.client.URL())
	}
	rt, token := f.doors.worker()
	w := skein.NewWorker(strings.Join(urls, ","), skein.WorkerOptions{Name: name, Slots: 20, Transport: rt, Token: token, Drain: 10 * time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	h.register(w)
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Errorf("the worker's end: %v", err)
		}
	})
	f.t.Cleanup(end)
	return end
}

// task waits until a task of a run is as wanted.
func (f *flight) task(c *skein.Client, run, name string, is func(*api.Task) bool) api.Task {
	f.t.Helper()
	var last api.Task
	f.until("task "+name, func() bool {
		t, err := c.Task(f.t.Context(), run, name)
		last = t
		return err == nil && is(&t)
	})
	return last
}

func inState(state string) func(*api.Task) bool {
	return func(t *api.Task) bool { return t.State == state }
}

// TestHandlers runs tasks of several kinds in this process for a cluster of two nodes. It checks typed input
// and outputs, errors that are retried and errors that are not, panics, logs, stops, the death of the
// worker's home, and the end of the worker.
func TestHandlers(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 2)
	f.listed(2)
	ctx, c := t.Context(), f.members[1].client
	wf := skein.NewWorkflow("kinds").Param("n", "int", 5).
		Task("shell").Run("echo size=2.0 >> $SKEIN_OUTPUT").Set("outputs", map[string]string{"size": "float"}).
		Task("count").Needs("shell").Outputs(numbered{}).
		Kind("count", map[string]any{"n": "${{ params.n }}", "deep": []any{map[string]any{"x": "<${{ tasks.shell.outputs.size }}>"}}}).
		Task("flaky").Kind("flaky", named{"f"}).Retry(2, time.Millisecond).
		Task("never").Kind("never", named{"it"}).Retry(5, time.Millisecond).
		Task("unfit").Kind("never", map[string]any{"nmae": "x"}).Retry(5, time.Millisecond).
		Task("panics").Kind("panics", nil).
		Task("nobody").Kind("vm.create", nil).Workflow()
	if _, err := wf.Apply(ctx, c); err != nil {
		t.Fatal(err)
	}
	run, err := wf.Start(ctx, c, map[string]any{"n": 7})
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.Explain(ctx, run.ID, "never")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" {
		t.Errorf("before there is a worker: %+v, %v", x, err)
	}
	h := &handlers{begun: make(chan *skein.Task, 10), open: make(chan struct{}), ended: make(chan error, 1)}
	leave := f.working(h, "gopher")
	for name, want := range map[string]struct {
		state, cause, message string
		attempts              int
	}{
		"count": {"succeeded", "", "", 1}, "flaky": {"succeeded", "", "", 2}, "never": {"failed", "permanent", "it is gone", 1},
		"unfit": {"failed", "permanent", `unknown field "nmae"`, 1}, "panics": {"failed", "panic", "over there", 1},
	} {
		is := f.task(c, run.ID, name, inState(want.state))
		last := is.Attempts[len(is.Attempts)-1]
		if len(is.Attempts) != want.attempts || want.cause != "" && (last.Cause == nil || *last.Cause != want.cause || !strings.Contains(*last.Message, want.message)) || last.Node != "gopher" {
			t.Errorf("%s: %+v", name, is)
		}
	}
	got, err := skein.Outputs[numbered](ctx, c, run.ID, "count")
	if want := (numbered{2, 3, "7 [map[x:<2>]] true"}); err != nil || got != want {
		t.Errorf("outputs %+v, %v; want %+v", got, err, want)
	}
	f.printed(c, run.ID, "count", "of kinds, attempt 1, lock 0\n")
	f.printed(c, run.ID, "panics", "panic: over there\n\ngoroutine")
	x, err = c.Explain(ctx, run.ID, "nobody")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" {
		t.Errorf("explained as %+v, %v", x, err)
	}
	if _, err := c.KillRun(ctx, run.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	f.split(c)
	f.interrupted(h)
	leave()
	f.listed(2)
	if out := f.members[0].home.run("verify"); !strings.Contains(string(out), `"violations": []`) {
		t.Errorf("verify: %s", out)
	}
}

// machines is a state of a fleet: sizes by name.
type machines map[string]int

// fleet are the parameters of the planner.
type fleet struct {
	Want machines `json:"want"`
	Odd  string   `json:"odd"`
}

// plan returns a planner that compares the present state with the wanted one, and returns the tasks for the
// difference.
func plan(have machines) func(context.Context, *skein.Split[fleet]) ([]*skein.TaskDef, error) {
	return func(_ context.Context, s *skein.Split[fleet]) (tasks []*skein.TaskDef, err error) {
		var with struct{ Region string }
		if err := json.Unmarshal(s.With, &with); err != nil {
			return nil, err
		}
		fmt.Fprintf(s, "attempt %d plans version %d of %s in %s\n", s.Attempt, s.Version, s.Workflow, with.Region)
		switch {
		case s.Params.Odd == "later" && s.Attempt == 1:
			return nil, errors.New("the inventory does not answer")
		case s.Params.Odd == "twice":
			return []*skein.TaskDef{skein.NewTask("a").Run("true"), skein.NewTask("a").Run("true")}, nil
		case s.Params.Odd == "circle":
			return []*skein.TaskDef{skein.NewTask("a").Run("true").Needs("b"), skein.NewTask("b").Run("true").Needs("a")}, nil
		}
		var removed []string
		for _, name := range slices.Sorted(maps.Keys(have)) {
			if _, stays := s.Params.Want[name]; !stays {
				removed = append(removed, "remove-"+name)
				tasks = append(tasks, skein.NewTask("remove-"+name).Run("echo removed "+name))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Params.Want)) {
			if size := s.Params.Want[name]; have[name] != size {
				tasks = append(tasks, skein.NewTask("resize-"+name).Run(fmt.Sprintf("echo %s is %d", name, size)).Needs(removed...).Retry(1, time.Millisecond))
			}
		}
		return tasks, nil
	}
}

// split runs workflows whose tasks a planner in this process makes. The planner returns the tasks for a
// difference, in their order, or no tasks. It succeeds only at another try, or fails at every try. If no
// worker has the kind of a splitter, explain says so.
func (f *flight) split(c *skein.Client) {
	t, ctx := f.t, f.t.Context()
	wf := skein.NewWorkflow("fleet").Param("want", "json", nil).Param("odd", "string", "").
		Set("splitter", map[string]any{"kind": "fleet.plan", "with": map[string]any{"Region": "eu"}, "retry": map[string]any{"max": 2}})
	nobody := skein.NewWorkflow("unplanned").Set("splitter", "fleet.nobody")
	for _, w := range []*skein.Workflow{wf, nobody} {
		if _, err := w.Apply(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := nobody.Start(ctx, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fleet
		state, task, message string
		attempts             int
		made                 string
	}{
		{fleet{machines{"a": 1, "b": 3, "d": 1}, ""}, "succeeded", "work", "", 1, "remove-c resize-b resize-d"},
		{fleet{machines{"a": 1, "b": 2, "c": 1}, ""}, "succeeded", "work", "", 1, ""},
		{fleet{machines{"a": 1, "b": 2}, "later"}, "succeeded", "work", "", 2, "remove-c"},
		{fleet{machines{}, "twice"}, "failed", "split", "returned two tasks with the name a", 1, ""},
		{fleet{machines{}, "circle"}, "failed", "work", "its tasks cannot be run: ", 1, ""},
	} {
		run, err := wf.Start(ctx, c, tt.fleet)
		if err != nil {
			t.Fatal(err)
		}
		if run, err = c.WaitRun(ctx, run.ID); err != nil || run.State != tt.state {
			t.Errorf("%+v: %s %v", tt.fleet, run.State, err)
			continue
		}
		split := f.task(c, run.ID, "split", func(*api.Task) bool { return true })
		is := f.task(c, run.ID, tt.task, inState(tt.state))
		last := is.Attempts[len(is.Attempts)-1]
		if len(split.Attempts) != tt.attempts || split.Attempts[0].Node != "gopher" || tt.message != "" && (last.Message == nil || !strings.Contains(*last.Message, tt.message)) {
			t.Errorf("%+v: %+v, %+v", tt.fleet, split, is)
		}
		var made []string
		if last.Child != nil {
			for task, err := range c.EachTask(ctx, *last.Child) {
				if err != nil {
					t.Fatal(err)
				}
				made = append(made, task.Name)
			}
		}
		if got := strings.Join(made, " "); got != tt.made {
			t.Errorf("%+v was made of %q, want %q", tt.fleet, got, tt.made)
		}
		f.printed(c, run.ID, "split", "plans version 1 of fleet in eu\n")
	}
	x, err := c.Explain(ctx, alone.ID, "split")
	if err != nil || len(x.Reasons) != 1 || x.Reasons[0].Code != "no_worker" {
		t.Errorf("explained as %+v, %v", x, err)
	}
	if _, err := c.KillRun(ctx, alone.ID, "enough"); err != nil {
		t.Fatal(err)
	}
}

// interrupted: a stop ends the context of a handler, and the death of a node does not.
func (f *flight) interrupted(h *handlers) {
	t, ctx, c := f.t, f.t.Context(), f.members[1].client
	wf := skein.NewWorkflow("waits").Task("wait").Kind("wait", nil).Outputs(named{}).Task("stuck").Kind("stuck", nil).Workflow()
	if _, err := wf.Apply(ctx, c); err != nil {
		t.Fatal(err)
	}
	run, err := wf.Start(ctx, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := <-h.begun, <-h.begun
	if first.Run != run.ID || first.Name == second.Name || first.IdempotencyKey != run.ID+"/"+first.Name {
		t.Errorf("%+v, %+v", first, second)
	}
	if _, err := c.StopTask(ctx, run.ID, "stuck", "enough"); err != nil {
		t.Fatal(err)
	}
	if why := <-h.ended; !errors.Is(why, skein.ErrStopped) {
		t.Errorf("the context ended with %v", why)
	}
	f.task(c, run.ID, "stuck", inState("stopped"))
	f.members[0].kill()
	f.until("the worker is with the node that is left", func() bool { return f.row("home", "gopher") == f.row("handler", "n2") })
	close(h.open)
	f.task(c, run.ID, "wait", inState("succeeded"))
	if got, err := skein.Outputs[named](ctx, c, run.ID, "wait"); err != nil || got.Name != "waited" {
		t.Errorf("%+v, %v", got, err)
	}
	f.printed(c, run.ID, "wait", "progress 1/1 done\n")
	f.members[0].start()
}

// printed waits for a text in the log of a task.
func (f *flight) printed(c *skein.Client, run, task, want string) {
	f.t.Helper()
	f.until("the log of "+task, func() bool {
		l, err := c.Logs(f.t.Context(), run, task, skein.LogQuery{})
		if err != nil {
			return false
		}
		defer l.Close()
		text, err := io.ReadAll(l)
		return err == nil && strings.Contains(string(text), want)
	})
}

// TestSDKExample runs the program of examples/sdk against a cluster of one node.
func TestSDKExample(t *testing.T) {
	t.Parallel()
	f := newPlainFlight(t, 1) // the program finds the token by itself
	program := filepath.Join(t.TempDir(), "sdk")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "skein.dev/skein/examples/sdk").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-server", f.members[0].client.URL())
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME=", "HOME="+f.members[0].home.dir)
	out, err := cmd.Output()
	if err != nil || string(out) != "run succeeded: 1235 cents\n" {
		t.Errorf("%q, %v", out, err)
	}
}
