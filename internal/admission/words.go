package admission

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The periods of a rate.
const (
	PerSecond dag.Micros = 1_000_000
	PerMinute            = 60 * PerSecond
	PerHour              = 60 * PerMinute
)

// Because returns the reason that a person gave, in a form that can end a sentence. It returns "" if there is
// no reason.
func Because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// Lets describes a limit for messages.
func Lets[N int | int64 | int32](what string, limit N) string {
	if limit == 1 {
		return what + " allows one active run at a time"
	}
	return fmt.Sprintf("%s allows %d active runs at a time", what, limit)
}

// Paces describes for messages how many runs or tasks a rate admits.
func Paces(what string, n int32, of string, period dag.Micros) string {
	if n == 1 {
		return fmt.Sprintf("%s admits one %s %s", what, of, each(period))
	}
	return fmt.Sprintf("%s admits %d %ss %s", what, n, of, each(period))
}

func each(period dag.Micros) string {
	switch period {
	case PerSecond:
		return "a second"
	case PerMinute:
		return "a minute"
	}
	return "an hour"
}

// WhyHeld explains why a queue gives the tasks of a run no further slots now. The parameter has is the number
// of slots in use.
func WhyHeld(q *store.Queue, s *dag.Share, has int64, now dag.Micros) (what, unblocks string, expected dag.Micros) {
	switch state := QueueState(q, now); {
	case state != store.QueueActive:
		return fmt.Sprintf("%s is %s%s", s.What(), state, Because(q.Reason)), "skein queue resume " + q.Name, q.Until
	case q.Limit > 0 && has >= int64(q.Limit):
		what = fmt.Sprintf("%s allows %d running tasks at a time", s.What(), q.Limit)
		if q.Limit == 1 {
			what = s.What() + " allows one running task at a time"
		}
		return what, "the end of a task that has a queue slot, or a higher limit: skein queue set " + q.Name + " --limit N", 0
	case q.Rate > 0 && q.Paced > now:
		return Paces(s.What(), q.Rate, "task", q.Each), "the next grant of the queue", q.Paced
	}
	return "the run is queued in " + s.What(), "the next free queue slot", 0
}

// NoQueue returns the message that there is no queue with a name. by describes the definition that names the
// queue. An empty by means the run.
func NoQueue(name, by string) string {
	if by == "" {
		by = "the run"
	}
	return fmt.Sprintf("there is no queue %s, which %s names: make it with skein queue set %s --limit N, or correct the name", name, by, name)
}
