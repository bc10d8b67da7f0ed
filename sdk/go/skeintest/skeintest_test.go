package skeintest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	skein "skein.dev/skein/sdk"
	"skein.dev/skein/sdk/skeintest"
)

type order struct {
	Item  string `json:"item"`
	Count int    `json:"count"`
}

type price struct {
	Cents int    `json:"cents"`
	Seen  string `json:"seen,omitempty"`
}

// waits is a task function that waits for the end of its context.
func waits(ctx context.Context, t *skein.Task, _ struct{}) (price, error) {
	fmt.Fprintln(t, "waiting")
	<-ctx.Done()
	fmt.Fprintln(t, "ended:", context.Cause(ctx))
	return price{}, context.Cause(ctx)
}

func register(w *skein.Worker) {
	skein.Handle(w, "price", func(_ context.Context, t *skein.Task, o order) (price, error) {
		switch o.Item {
		case "gold":
			return price{}, skein.Permanent(errors.New("gold is not for sale"))
		case "tea":
			return price{}, errors.New("no tea today")
		case "bomb":
			panic("boom")
		}
		if err := t.Progress(1, 2, o.Item); err != nil {
			return price{}, err
		}
		t.Logger().Info("priced", "attempt", t.Attempt)
		return price{100 * o.Count, fmt.Sprint(t.Workflow, " ", t.Name, " ", t.IdempotencyKey, " ", t.Token, " ", t.LockToken, " ", t.Instant.Year())}, nil
	})
	skein.Handle(w, "waits", waits)
	skein.HandleSplitter(w, "plan", func(_ context.Context, s *skein.Split[order]) ([]*skein.TaskDef, error) {
		var all []*skein.TaskDef
		for i := range s.Params.Count {
			all = append(all, skein.NewTask(fmt.Sprint(s.Params.Item, i, "-", s.Version)).Run("true"))
		}
		return all, nil
	})
}

func TestResults(t *testing.T) {
	w := skeintest.New(t, register)
	for name, tt := range map[string]struct {
		task         skeintest.Task
		state, cause string
		message, log string
		retried      bool
	}{
		"success":          {task: skeintest.Task{With: order{"bread", 2}}, state: skeintest.Succeeded, log: "progress 1/2 bread"},
		"declared":         {task: skeintest.Task{With: order{"bread", 2}, Outputs: map[string]string{"cents": "int"}}, state: skeintest.Succeeded, log: "priced"},
		"error":            {task: skeintest.Task{With: order{Item: "tea"}}, state: skeintest.Failed, cause: "error", message: "no tea today", retried: true},
		"permanent":        {task: skeintest.Task{With: order{Item: "gold"}}, state: skeintest.Failed, cause: "permanent", message: "not for sale"},
		"panic":            {task: skeintest.Task{With: order{Item: "bomb"}}, state: skeintest.Failed, cause: "panic", message: "boom", log: "goroutine", retried: true},
		"unknown key":      {task: skeintest.Task{With: map[string]any{"itme": "x"}}, state: skeintest.Failed, cause: "permanent", message: `unknown field "itme"`},
		"a missing output": {task: skeintest.Task{With: order{"bread", 2}, Outputs: map[string]string{"euros": "int"}}, state: skeintest.Failed, cause: "output", message: `"euros"`, retried: true},
		"a wrong type":     {task: skeintest.Task{With: order{"bread", 2}, Outputs: map[string]string{"seen": "int"}}, state: skeintest.Failed, cause: "output", message: `"seen"`, retried: true},
		"unknown kind":     {task: skeintest.Task{Kind: "nobody"}, state: skeintest.Failed, cause: "start", message: "no handler of kind nobody", retried: true},
		"timeout":          {task: skeintest.Task{Kind: "waits", Timeout: time.Millisecond}, state: skeintest.Failed, cause: "timeout", message: "timeout of 1ms", log: "ended: " + skein.ErrTimedOut.Error(), retried: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.task.Kind == "" {
				tt.task.Kind = "price"
			}
			r := w.Run(tt.task)
			if r.State != tt.state || r.Cause != tt.cause || !strings.Contains(r.Message, tt.message) || !strings.Contains(r.Log, tt.log) || r.Retried != tt.retried {
				t.Errorf("%+v", r)
			}
			if got := r.State == skeintest.Succeeded; got != (r.Outputs != nil) {
				t.Errorf("outputs %s of an attempt that is %s", r.Outputs, r.State)
			}
		})
	}
}

func TestTask(t *testing.T) {
	r := skeintest.New(t, register).Run(skeintest.Task{Kind: "price", With: order{"bread", 3}, Run: "r", Name: "n", Workflow: "shop", Attempt: 4, LockToken: 7,
		Instant: time.Date(2031, 5, 1, 0, 0, 0, 0, time.UTC)})
	if got, want := skeintest.Outputs[price](t, r), (price{300, "shop n r/n 4 7 2031"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !strings.Contains(r.Log, "attempt=4") {
		t.Errorf("log %q", r.Log)
	}
}

// TestEnds ends the context of a task function for each reason that package skein names.
func TestEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		do           func(*skeintest.Attempt)
		state, cause string
		why          error
		silent       bool // the log does not arrive
	}{
		"stop":    {do: (*skeintest.Attempt).Stop, state: skeintest.Stopped, cause: "stopped", why: skein.ErrStopped},
		"fence":   {do: (*skeintest.Attempt).Fence, state: skeintest.Lost, why: skein.ErrFenced, silent: true},
		"cut off": {do: (*skeintest.Attempt).CutOff, state: skeintest.Lost, cause: skein.ErrCutOff.Error(), why: skein.ErrCutOff},
		"end":     {do: (*skeintest.Attempt).End, state: skeintest.Lost, why: skein.ErrDraining},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			w := skeintest.New(t, func(w *skein.Worker) {
				skein.Handle(w, "waits", func(ctx context.Context, t *skein.Task, in struct{}) (price, error) {
					defer func() { ended <- context.Cause(ctx) }()
					return waits(ctx, t, in)
				})
			})
			a := w.Start(skeintest.Task{Kind: "waits"})
			a.Logged("waiting")
			tt.do(a)
			r := a.Wait()
			if why := <-ended; !errors.Is(why, tt.why) {
				t.Errorf("the context ended with %v", why)
			}
			if r.State != tt.state || r.Cause != tt.cause || !tt.silent && !strings.Contains(r.Log, "ended: "+tt.why.Error()) {
				t.Errorf("%+v", r)
			}
			if again := a.Wait(); again != r {
				t.Errorf("waited twice: %+v", again)
			}
		})
	}
}

// TestStopFirst checks that a stop before the beginning of the attempt ends the attempt.
func TestStopFirst(t *testing.T) {
	a := skeintest.New(t, register).Start(skeintest.Task{Kind: "waits"})
	a.Stop()
	if r := a.Wait(); r.State != skeintest.Stopped {
		t.Errorf("%+v", r)
	}
}

func TestSplitter(t *testing.T) {
	r := skeintest.New(t, register).Run(skeintest.Task{Kind: "plan", With: skeintest.Split{Params: order{"bread", 2}, Version: 3}})
	if got := skeintest.Names(t, r); !slices.Equal(got, []string{"bread0-3", "bread1-3"}) {
		t.Errorf("%q", got)
	}
}

// TestNothingLeft checks that an attempt that the test does not wait for ends with the test.
func TestNothingLeft(t *testing.T) {
	var ended error
	t.Run("inner", func(t *testing.T) {
		a := skeintest.New(t, func(w *skein.Worker) {
			skein.Handle(w, "waits", func(ctx context.Context, t *skein.Task, in struct{}) (price, error) {
				out, err := waits(ctx, t, in)
				ended = err
				return out, err
			})
		}).Start(skeintest.Task{Kind: "waits"})
		a.Logged("waiting")
	})
	if ended == nil {
		t.Error("the task function still runs")
	}
}
