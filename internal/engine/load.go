package engine

import (
	"math"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// loadHalfDefault is the age at which past work of the writer counts half in the rates.
const loadHalfDefault = 30 * time.Second

// loads measures the work of the writer for each shard. For each shard that a transaction writes to, this
// costs a few additions, and no row.
type loads struct {
	half time.Duration
	now  func() time.Time
	// Only the writer's goroutine uses these fields. began is the start of the measured time of the next
	// transaction. arrived is the arrival of its oldest item, by the clock of pulse, or 0 if no item came
	// from the inbox.
	began   time.Time
	arrived int64

	mu sync.Mutex // protects following fields
	of map[dag.ShardID]*rates
}

// rates holds decaying sums: of the work for a shard, and of the time in which the work was done. Both decay
// in the same way, so their quotient is right from the start, also for a shard that was just taken.
type rates struct {
	at      time.Time // time of the last decay
	seconds float64
	busy    float64 // seconds
	rows    float64
	commits float64
	waited  float64 // seconds, summed over the commits
}

// shardRows is the number of rows of a transaction that belong to one shard.
type shardRows struct {
	shard dag.ShardID
	rows  int
}

// work adds rows of a shard to the transaction.
func (t *transaction) work(s dag.ShardID, rows int) {
	for i := range t.rowsOf {
		if t.rowsOf[i].shard == s {
			t.rowsOf[i].rows += rows
			return
		}
	}
	t.rowsOf = append(t.rowsOf, shardRows{s, rows})
}

// decay lowers the weight of earlier work.
func (r *rates) decay(now time.Time, half time.Duration) {
	passed := now.Sub(r.at).Seconds()
	if passed <= 0 {
		return
	}
	r.at = now
	keep := math.Exp2(-passed / half.Seconds())
	r.seconds = r.seconds*keep + (1-keep)*half.Seconds()/math.Ln2
	r.busy *= keep
	r.rows *= keep
	r.commits *= keep
	r.waited *= keep
}

// begin starts the measurement for a shard that this node has taken. If there is already a measurement, it
// continues.
func (l *loads) begin(s dag.ShardID, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[s] == nil {
		l.of[s] = &rates{at: now}
	}
}

// end forgets a shard that this node has released.
func (l *loads) end(s dag.ShardID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, s)
}

// take counts a committed transaction. Its cost is the time since the previous transaction. The shards of the
// transaction share the cost in proportion to their rows.
func (l *loads) take(t *transaction, now time.Time, pulse int64) {
	took := now.Sub(l.began).Seconds()
	l.began = now
	b := &t.batch
	if len(b.Fences) == 0 || took < 0 {
		return
	}
	for i := range b.TriggerUpdates {
		t.work(b.TriggerUpdates[i].Shard, 1)
	}
	rest, all := b.Rows(), 0
	for _, s := range t.rowsOf {
		rest -= s.rows
	}
	for _, f := range b.Fences { // rows with an unknown shard are divided between the shards of the transaction
		t.work(f.Shard, 1+max(rest, 0)/len(b.Fences))
	}
	for _, s := range t.rowsOf {
		all += s.rows
	}
	waited := 0.0
	if l.arrived != 0 {
		waited = time.Duration(pulse - l.arrived).Seconds()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range t.rowsOf {
		r := l.of[s.shard]
		if r == nil {
			continue
		}
		r.decay(now, l.half)
		r.busy += took * float64(s.rows) / float64(all)
		r.rows += float64(s.rows)
		r.commits++
		r.waited += waited
	}
}

// Load returns the rates of the shards that this node owns now.
func (s *Stats) Load() *store.Load {
	l := &s.loads
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]store.ShardLoad, 0, len(l.of))
	for shard, r := range l.of {
		r.decay(now, l.half)
		if r.seconds == 0 || r.commits == 0 {
			continue
		}
		is := store.ShardLoad{Shard: shard, Busy: min(r.busy/r.seconds, 1), Rows: r.rows / r.seconds, Commits: r.commits / r.seconds, Wait: r.waited / r.commits}
		if is.Busy >= busyMin {
			all = append(all, is)
		}
	}
	return store.NewLoad(all)
}

// busyMin is the smallest cost of a shard that Load lists, in seconds of the writer's time per second.
const busyMin = 1e-5
