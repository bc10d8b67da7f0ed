package monitor

import (
	"context"
	"time"
)

const (
	// loadEvery is the interval between two points of the load, and loadPoints the number of those that are
	// kept: one hour.
	loadEvery  = 5 * time.Second
	loadPoints = int(time.Hour / loadEvery)
)

// Counters holds the counts of a node since its start, and its present slots.
type Counters struct {
	Commits     int64
	CommitTime  time.Duration // sum over all commits
	Started     int64         // attempts
	Slots, Busy int
}

// Load is a point of the load of this node: the mean since the previous point, and the slots at the time of
// the point.
type Load struct {
	At          time.Time
	CPU         float64 // cores that this process used
	Commits     float64 // per second
	CommitTime  time.Duration
	Started     float64 // attempts per second
	Slots, Busy int
	Lag         time.Duration // since the last heartbeat that the database has
}

// loads holds the points of the last hour.
type loads struct {
	points []Load // a ring
	next   int
	last   Counters
	cpu    time.Duration
	at     time.Time
}

// keepLoad adds points until ctx ends.
func (m *Monitor) keepLoad(ctx context.Context) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for m.point(time.Now()); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case now := <-tick.C:
			m.point(now)
		}
	}
}

// point adds a point. The first call only reads the counters, because a point needs two readings.
func (m *Monitor) point(now time.Time) {
	is, cpu := m.cfg.Counters(), processorTime()
	lag := m.lag(now)
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.loads
	was, used, took := l.last, cpu-l.cpu, now.Sub(l.at).Seconds()
	first := l.at.IsZero()
	l.last, l.cpu, l.at = is, cpu, now
	if first || took <= 0 {
		return
	}
	p := Load{At: now, CPU: max(0, used.Seconds()/took), Commits: float64(is.Commits-was.Commits) / took, Started: float64(is.Started-was.Started) / took,
		Slots: is.Slots, Busy: is.Busy, Lag: lag}
	if n := is.Commits - was.Commits; n > 0 {
		p.CommitTime = (is.CommitTime - was.CommitTime) / time.Duration(n)
	}
	if len(l.points) < loadPoints {
		l.points = append(l.points, p)
		return
	}
	l.points[l.next] = p
	l.next = (l.next + 1) % loadPoints
}

// lag returns the time since the last heartbeat of this node that the database has.
func (m *Monitor) lag(now time.Time) time.Duration {
	self := m.cfg.Self().Handler
	m.mu.Lock()
	skew := m.skew
	m.mu.Unlock()
	for _, o := range m.cfg.View() {
		if o.Handler == self && o.Seen > 0 {
			return max(0, now.Add(-skew).Sub(o.Seen.Time()))
		}
	}
	return 0
}

// Loads returns the points of the last hour since an instant, the oldest first.
func (m *Monitor) Loads(since time.Time) (points []Load) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.loads.points)
	for i := range n {
		if p := m.loads.points[(m.loads.next+i)%n]; p.At.After(since) {
			points = append(points, p)
		}
	}
	return points
}
