package admission

import (
	"bytes"
	"cmp"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Crew is the set of all tasks of one run that name one queue. Each has a queue slot or waits for one.
type Crew struct {
	Run      dag.RunID
	Shard    dag.ShardID
	Priority dag.Priority
	Share    dag.Share
}

// QueueState returns the present state of a queue. If its state was set until a time that has passed, the
// queue is active again.
func QueueState(q *store.Queue, now dag.Micros) string {
	if q.Until != 0 && q.Until <= now {
		return store.QueueActive
	}
	return q.State
}

// ByTurn orders crews by the time since which they wait.
func ByTurn(a, b *Crew) int {
	return cmp.Or(cmp.Compare(a.Share.Asked, b.Share.Asked), bytes.Compare(a.Run[:], b.Run[:]))
}

// Sooner reports whether crew a gets the next queue slot before crew b. If the queue was removed, q is nil,
// and the order ignores priorities.
func Sooner(q *store.Queue, a, b *Crew, now, ageing dag.Micros) bool {
	if q != nil && q.Order == store.QueuePriority {
		if x, y := a.level(now, ageing), b.level(now, ageing); x != y {
			return x < y
		}
	}
	return ByTurn(a, b) < 0
}

func (c *Crew) level(now, ageing dag.Micros) int64 {
	return Aged(c.Priority, c.Share.Asked, now, ageing)
}

// Aged returns the level of a priority, improved by one for each full ageing time since an instant. The best
// level is 0.
func Aged(p dag.Priority, since, now, ageing dag.Micros) int64 {
	level := int64(p)
	if ageing > 0 {
		level = max(level-int64(max(0, now-since)/ageing), 0)
	}
	return level
}
