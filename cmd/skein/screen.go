package main

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// screen is the live part of a terminal: a few lines at the bottom, which are redrawn. Other lines scroll
// above them. Without a terminal, screen only prints.
type screen struct {
	c     *cli
	moves bool

	mu    sync.Mutex // protects following fields
	drawn int        // the number of lines at the bottom
	last  []string
}

func newScreen(c *cli) *screen { return &screen{c: c, moves: c.errTTY} }

// print writes a line above the live part.
func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	fmt.Fprintf(s.c.err, format+"\n", args...)
	s.drawLocked(s.last)
}

// draw replaces the live part.
func (s *screen) draw(lines []string) {
	if !s.moves {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	s.drawLocked(lines)
}

// clear erases the live part.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	s.last = nil
}

func (s *screen) eraseLocked() {
	if s.drawn > 0 {
		fmt.Fprintf(s.c.rawErr, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) drawLocked(lines []string) {
	if !s.moves || len(lines) == 0 {
		return
	}
	edge := s.c.columns()
	for _, line := range lines {
		fmt.Fprintln(s.c.err, clip(line, edge-1)) // a line that wraps could not be erased
	}
	s.last, s.drawn = lines, len(lines)
}

// clip shortens a line, which may have colours, to n columns.
func clip(s string, n int) string {
	if width(s) <= n {
		return s
	}
	var b strings.Builder
	seen, inside := 0, false
	for _, r := range s {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		case seen == n-1:
			return b.String() + "…\x1b[0m"
		default:
			seen++
		}
		b.WriteRune(r)
	}
	return b.String()
}

const (
	shownMax = 10 // bounds the running tasks, and the failed tasks, that are shown by name
	barWidth = 24
)

// runView holds those tasks of a run that are running or have failed, as the run's events have shown them.
type runView struct {
	c       *cli
	running map[string]time.Time
	attempt map[string]int32  // by task: the newest attempt that has ended
	lost    map[string]int32  // by task: the number of its newest lost attempt
	failed  map[string]string // the tasks that have finally failed, with the reasons; "" for a task that is not shown
	shown   []string          // those tasks of failed that are shown, in the order in which they failed

	decided map[string]time.Time // by task: the time at which it failed without an attempt, if that was printed
	// message returns the message of an attempt, for the first asksMax of them. It is nil if there is no server
	// to ask.
	message func(task string, attempt int32) string
	asked   int
}

// asksMax bounds the requests for messages. A person does not read more failures, so further requests would
// waste the server's time.
const asksMax = 2 * shownMax

func newRunView(c *cli) *runView {
	return &runView{c: c, running: map[string]time.Time{}, attempt: map[string]int32{}, lost: map[string]int32{}, failed: map[string]string{}, decided: map[string]time.Time{}}
}

// event processes one event of the history. It returns a sentence for the user, or "".
func (v *runView) event(ev *api.Event) string {
	if ev.Task == nil {
		return ""
	}
	if ev.Attempt == nil {
		return v.withoutAttempt(ev)
	}
	task, n := *ev.Task, *ev.Attempt
	if v.attempt[task] >= n {
		return "" // the event was already processed, because past and new events overlap
	}
	switch ev.Kind {
	case "assigned", "started", "deferred":
		v.absolve(task)
		if ev.Kind != "deferred" && (v.running[task].IsZero() || ev.Kind == "started") {
			v.running[task] = ev.At.Time
		}
	case "marked": // an operator has decided, or a deadline has passed
		v.attempt[task] = n
		v.absolve(task)
		if text(ev.State) == "failed" {
			return v.fails(task, reasonOf(ev))
		}
	case "lost": // either the end of the attempt or the next assignment decides
		delete(v.running, task)
		if v.lost[task] < n {
			v.lost[task] = n
			return fmt.Sprintf("task %s, attempt %d, is lost: %s", task, n, reasonOf(ev))
		}
	case "ended":
		v.attempt[task] = n
		delete(v.running, task)
		return v.ended(ev, task, n)
	}
	return ""
}

// withoutAttempt processes the end of a task that never had an attempt, because its condition could not be
// evaluated.
func (v *runView) withoutAttempt(ev *api.Event) string {
	if ev.Kind != "ended" || text(ev.State) != "failed" || !ev.At.After(v.decided[*ev.Task]) {
		return ""
	}
	v.decided[*ev.Task] = ev.At.Time
	return v.fails(*ev.Task, reasonOf(ev))
}

// fails records a task that has finally failed.
func (v *runView) fails(task, why string) string {
	v.absolve(task) // drop the note about an earlier failure
	if len(v.shown) == shownMax {
		v.failed[task] = ""
		return ""
	}
	v.failed[task] = why
	v.shown = append(v.shown, task)
	return "task " + task + " failed: " + why
}

func (v *runView) hasFailed(task string) bool {
	_, failed := v.failed[task]
	return failed
}

// absolve drops the failure of a task that is repeated, or whose end an operator has changed.
func (v *runView) absolve(task string) {
	if v.hasFailed(task) {
		delete(v.failed, task)
		v.shown = slices.DeleteFunc(v.shown, func(t string) bool { return t == task })
	}
}

// why returns the message about the end of an attempt. The history contains only the kind of the end.
func (v *runView) why(ev *api.Event, task string, n int32) string {
	if (ev.ExitCode == nil || *ev.ExitCode == 0) && v.message != nil && v.asked < asksMax {
		v.asked++
		if m := v.message(task, n); m != "" {
			return printable(m)
		}
	}
	return reasonOf(ev)
}

func (v *runView) ended(ev *api.Event, task string, n int32) string {
	switch text(ev.State) {
	case "failed":
		return v.fails(task, v.why(ev, task, n))
	case "retry_wait", "ready":
		if text(ev.Text) == "ask" {
			return "task " + task + " waits for a person: skein task retry, skip or mark"
		}
		why := v.why(ev, task, n)
		return fmt.Sprintf("task %s, attempt %d, failed: %s; it will be tried again", task, n, why)
	}
	return ""
}

func reasonOf(ev *api.Event) string {
	switch {
	case ev.ExitCode != nil && *ev.ExitCode != 0:
		return fmt.Sprintf("exit %d", *ev.ExitCode)
	case ev.Reason != nil && *ev.Reason != "":
		return *ev.Reason
	case ev.Text != nil && *ev.Text != "":
		return *ev.Text
	}
	return "no reason given"
}

// lines returns the live part for a run. It is readable for runs of any size.
func (v *runView) lines(run *api.Run) []string {
	p := painter{colour: v.c.errTTY && !set("NO_COLOR")}
	total, done := 0, 0
	for state, n := range run.Counts {
		total += n
		if terminal(state) {
			done += n
		}
	}
	head := fmt.Sprintf("%s  %s  %s %d/%d  %s", p.paint(bold, run.Workflow), p.state(run.State), bar(done, total), done, total,
		took(&run.CreatedAt, run.FinishedAt))
	lines := []string{head}
	if counts := v.counts(p, run.Counts); counts != "" {
		lines = append(lines, "  "+counts)
	}
	for _, task := range v.shown {
		lines = append(lines, "  "+p.paint(red, "✗ ")+task+"  "+v.failed[task])
	}
	if more := len(v.failed) - len(v.shown); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more failed", more))
	}
	names := make([]string, 0, len(v.running))
	for task := range v.running {
		names = append(names, task)
	}
	slices.SortFunc(names, func(a, b string) int { // the tasks that have run for the longest time come first
		if d := v.running[a].Compare(v.running[b]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, task := range names {
		if i == shownMax {
			lines = append(lines, fmt.Sprintf("  … and %d more running", len(names)-shownMax))
			break
		}
		lines = append(lines, "  "+p.paint(blue, "● ")+task+"  "+length(time.Since(v.running[task])))
	}
	return lines
}

// inOrder are the states in the order in which their counts are shown.
var inOrder = []string{"failed", "upstream_failed", "stopped", "retry_wait", "running", "assigned", "deferred", "ready", "pending", "skipped", "succeeded"}

func (v *runView) counts(p painter, counts map[string]int) string {
	var parts []string
	for _, state := range inOrder {
		if n := counts[state]; n > 0 {
			parts = append(parts, p.paint(looks[state][1], fmt.Sprintf("%d %s", n, state)))
		}
	}
	return strings.Join(parts, "  ")
}

func terminal(state string) bool {
	switch state {
	case "succeeded", "failed", "upstream_failed", "stopped", "skipped":
		return true
	}
	return false
}

func bar(done, total int) string {
	full := 0
	if total > 0 {
		full = barWidth * done / total
	}
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// painter colours text for stderr, which may be a terminal even if stdout is not.
type painter struct{ colour bool }

func (p painter) paint(code, s string) string {
	if !p.colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) state(s string) string {
	look := looks[s]
	return p.paint(look[1], strings.TrimSpace(look[0]+" "+s))
}
