package dag

import (
	"testing"
	"time"
)

// TestNeighboursOfPoison: a task that kills its keeper also kills concurrent attempts. Only that task fails
// as poison. A neighbour that needs a few seconds ends during the pauses between the crashes.
func TestNeighboursOfPoison(t *testing.T) {
	t.Parallel()
	const runs = 200
	g, err := NewGraph(spec("poison; neighbour"))
	must(err)
	innocent := 0
	for i := range runs {
		end := besidePoison(NewRun(Header{ID: RunID{byte(i), 7}}), g, 5*time.Second)
		if end[0] != Failed {
			t.Fatalf("poison is %s", end[0])
		}
		if end[1] == Succeeded {
			innocent++
		}
	}
	if innocent < runs*9/10 {
		t.Errorf("of %d neighbours %d succeeded", runs, innocent)
	}
}

// besidePoison runs two tasks. Whenever the first is assigned, the attempts of both are lost. The second task
// needs a given time.
func besidePoison(r *Run, g *Graph, needs time.Duration) [2]TaskState {
	var fx Effects
	var due [2]time.Duration // the time at which each task continues without an event
	now := Now{Wall: 1}
	step := func(ev Event) {
		r.Step(&ev, now, &fx)
		for _, timer := range fx.Timers {
			if timer.Kind == TimerRetry {
				due[timer.Task] = timer.Due
			}
		}
		fx = Effects{}
	}
	step(Event{Kind: EvSubmit, Graph: g})
	for r.Unfinished() {
		for t := range due {
			if r.tasks[t].state == Ready {
				r.unlist(TaskID(t))
				step(Event{Kind: EvAssign, Task: TaskID(t), Handler: 1})
				due[t] = now.Mono + needs
			}
		}
		if r.tasks[0].state.Held() {
			for t := range due {
				if p := &r.tasks[t]; p.state.Held() {
					step(Event{Kind: EvLost, Task: TaskID(t), Token: p.token, Handler: 1})
				}
			}
			continue
		}
		next := TaskID(0)
		if r.tasks[0].state.Terminal() || !r.tasks[1].state.Terminal() && due[1] < due[0] {
			next = 1
		}
		if ahead := due[next] - now.Mono; ahead > 0 {
			now = Now{Wall: now.Wall + Micros(ahead.Microseconds()), Mono: due[next]}
		}
		if p := &r.tasks[next]; p.state.Held() {
			step(Event{Kind: EvReport, Task: next, Token: p.token, Handler: 1, Result: Result{State: AttemptSucceeded}})
		} else {
			step(Event{Kind: EvTimer, Timer: TimerRetry, Task: next, Token: p.token})
		}
	}
	return [2]TaskState{r.tasks[0].state, r.tasks[1].state}
}
