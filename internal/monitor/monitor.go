package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sort"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
)

const (
	// Path is the path of the call between nodes.
	Path = "/internal/v1/health"
	// roundEvery is the time between two rounds. A round reads the clock of the database once.
	roundEvery = 10 * time.Second
	// callMax bounds the time of a call to a peer.
	callMax = 3 * time.Second
	// callsMax bounds the number of calls under way.
	callsMax = 8
	// peersMax bounds the peers that a round asks. If there are more, the rounds take turns.
	peersMax = 64
	// compareMax bounds the time of an answer that is used to compare clocks. The error of the comparison is up
	// to half of that time.
	compareMax = time.Second / 2
	// errorMax bounds an error that is kept, in bytes.
	errorMax = 300
)

// Config holds the surroundings of a monitor.
type Config struct {
	Self func() store.Member
	// View returns the members that this node knows.
	View func() []store.Member
	// Call posts a request to a peer. It is nil if this node is alone.
	Call func(ctx context.Context, m store.Member, path string, body, answer any) error
	// Clock reads the clock of the database.
	Clock func(context.Context) (dag.Micros, error)
	// Look adds what the node knows of itself to the report. It reads memory and files, and never the
	// database.
	Look func(*Report)
	// Counters reads what the node counts, from memory. If it is nil, the load is not noted.
	Counters func() Counters
	Jitter   func(time.Duration) time.Duration // returns a random duration below its argument
	Log      *slog.Logger
}

// Monitor watches the peers of a node.
type Monitor struct {
	cfg Config

	mu     sync.Mutex // protects following fields
	sights map[dag.HandlerID]*Sight
	beats  map[dag.HandlerID]beat
	cutBy  []string // the peers that say that they cannot reach this node, by name
	skew   time.Duration
	skewed bool
	loads  loads
	next   int // the first peer of the next round, if there are more than peersMax
}

// beat is the counter of a member, and the time since which it has not moved.
type beat struct {
	counter int64
	since   time.Time
}

// New returns a monitor. It asks no peer before Run.
func New(cfg Config) *Monitor {
	return &Monitor{cfg: cfg, sights: map[dag.HandlerID]*Sight{}, beats: map[dag.HandlerID]beat{}}
}

// Run watches until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	if m.cfg.Counters != nil {
		keeping.Go(func() { m.keepLoad(ctx) })
	}
	for ctx.Err() == nil {
		m.Round(ctx)
		pause := roundEvery*9/10 + m.cfg.Jitter(roundEvery/5)
		if len(m.cfg.View()) == 0 { // the node has not read the members yet
			pause = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Round asks each peer once, up to peersMax of them.
func (m *Monitor) Round(ctx context.Context) {
	m.compare(ctx)
	peers := m.peers()
	if m.cfg.Call == nil || len(peers) == 0 {
		return
	}
	room := make(chan struct{}, callsMax)
	var wg sync.WaitGroup
	for i := range peers {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			m.ask(ctx, &peers[i])
		})
	}
	wg.Wait()
	if ctx.Err() == nil {
		m.conclude()
	}
}

// compare compares the clock of this node with that of the database. A slow answer is ignored, because up to
// half of its time would look like a difference of the clocks.
func (m *Monitor) compare(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	began := time.Now()
	at, err := m.cfg.Clock(ctx)
	took := time.Since(began)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.skewed = err == nil && took <= compareMax; m.skewed {
		m.skew = began.Add(took / 2).Sub(at.Time())
	}
}

// peers returns the peers of the next round, and notes their counters.
func (m *Monitor) peers() []store.Member {
	self, now := m.cfg.Self().Handler, time.Now()
	var peers []store.Member
	for _, p := range m.cfg.View() {
		if !p.Worker && p.Handler != self {
			peers = append(peers, p)
		}
	}
	sort.Slice(peers, func(i, j int) bool { return peers[i].Name < peers[j].Name })
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := map[dag.HandlerID]bool{}
	for i := range peers {
		p := &peers[i]
		listed[p.Handler] = true
		if is, known := m.beats[p.Handler]; !known || is.counter != p.Beat {
			m.beats[p.Handler] = beat{p.Beat, now}
		}
		if m.sights[p.Handler] == nil {
			m.sights[p.Handler] = &Sight{Node: p.Name, Handler: p.Handler, Version: p.Version}
		}
	}
	for h := range m.sights {
		if !listed[h] {
			delete(m.sights, h)
			delete(m.beats, h)
		}
	}
	if len(peers) <= peersMax {
		return peers
	}
	m.next %= len(peers)
	turn := append(slices.Clone(peers[m.next:]), peers[:m.next]...)
	m.next += peersMax
	return turn[:peersMax]
}

// ask calls a peer and notes the outcome.
func (m *Monitor) ask(ctx context.Context, p *store.Member) {
	within, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	began := time.Now()
	var is Report
	err := m.cfg.Call(within, *p, Path, struct{}{}, &is)
	earlier := m.answersEarlier(p, err)
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sights[p.Handler]
	if s == nil {
		return
	}
	was := s.Unreachable()
	s.Asked, s.Reached = began, err == nil
	switch {
	case earlier:
		s.Fails, s.Error = 0, "it runs "+p.Version+", which does not answer this call; upgrade it"
	case err != nil:
		s.Fails, s.Error = s.Fails+1, err.Error()[:min(len(err.Error()), errorMax)]
	default:
		s.Fails, s.Error, s.Trip, s.Report, s.Version = 0, "", took, is.bounded(), p.Version
		s.Skew = is.Clock.Sub(began.Add(took / 2))
	}
	switch is := s.Unreachable(); {
	case is && !was:
		m.cfg.Log.Warn("a peer does not answer, although the database lists it", "code", "peer_not_reached", "node", p.Name, "address", p.Address, "err", s.Error)
	case was && !is:
		m.cfg.Log.Info("a peer answers again", "code", "peer_reachable", "node", p.Name)
	}
}

// answersEarlier reports whether a call failed because the peer runs another version, which does not have the
// call. That peer is reachable.
func (m *Monitor) answersEarlier(p *store.Member, err error) bool {
	var refused interface{ Status() int }
	return errors.As(err, &refused) && refused.Status() == http.StatusNotFound && p.Version != m.cfg.Self().Version
}

// bounded shortens the lists of a report that are too long.
func (r Report) bounded() Report {
	r.Unreached = r.Unreached[:min(len(r.Unreached), unreachedMax)]
	r.Sources = slices.Clone(r.Sources[:min(len(r.Sources), sourcesMax)])
	for i := range r.Sources {
		r.Sources[i].Why = r.Sources[i].Why[:min(len(r.Sources[i].Why), errorMax)]
	}
	for trigger := range r.Lags {
		if len(r.Lags) <= lagsMax {
			break
		}
		delete(r.Lags, trigger)
	}
	r.Why = r.Why[:min(len(r.Why), errorMax)]
	return r
}

// conclude records which peers cannot reach this node.
func (m *Monitor) conclude() {
	self := m.cfg.Self().Name
	m.mu.Lock()
	defer m.mu.Unlock()
	var by []string
	for _, s := range m.sights {
		if slices.Contains(s.Report.Unreached, self) && !s.Unreachable() {
			by = append(by, s.Node)
		}
	}
	slices.Sort(by)
	for _, name := range by {
		if !slices.Contains(m.cutBy, name) {
			m.cfg.Log.Warn("a peer reports that it cannot reach this node", "code", "peer_cut_off", "node", name)
		}
	}
	m.cutBy = by
}

// Sights lists what this node sees of its peers, by name.
func (m *Monitor) Sights() []Sight {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Sight, 0, len(m.sights))
	for h, s := range m.sights {
		is := *s
		is.Silent = now.Sub(m.beats[h].since)
		all = append(all, is)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Node < all[j].Node })
	return all
}

// CutBy lists the peers that cannot reach this node, as they say themselves.
func (m *Monitor) CutBy() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.cutBy)
}

// Self returns the report of this node about itself.
func (m *Monitor) Self() Report {
	self := m.cfg.Self()
	r := Report{Node: self.Name, Handler: self.Handler, Version: self.Version, Ready: true}
	m.cfg.Look(&r)
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Clock, r.Skew, r.Skewed = time.Now(), m.skew, m.skewed
	for _, s := range m.sights {
		if s.Unreachable() {
			r.Unreached = append(r.Unreached, s.Node)
		}
	}
	slices.Sort(r.Unreached)
	return r.bounded()
}

// Handle registers the call of other nodes.
func (m *Monitor) Handle(mux interface {
	HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request))
},
) {
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.Self()) // the caller has gone
	})
}

// Show writes the metrics of the peers.
func (m *Monitor) Show(p *metric.Page) {
	count, most := map[string]int{}, time.Duration(0)
	for _, s := range m.Sights() {
		count[s.State()]++
		if s.Reached {
			most = max(most, s.Skew.Abs())
		}
	}
	for _, state := range []string{StateReached, StateUnready, StateUnreachable, StateUnknown} {
		p.Set("peers", float64(count[state]), state)
	}
	p.Duration("peers_clock_difference_seconds", most)
	p.Set("peers_cut_off_by", float64(len(m.CutBy())))
}
