package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/host"
	"skein.dev/skein/internal/lru"
	"skein.dev/skein/internal/metric"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/tally"
)

const (
	// queueMax bounds the number of ends that wait for the exporter. Each takes about 200 bytes. At this
	// number, the waiting ends of the shard are dropped, and the exporter later finds them in the rows.
	queueMax = 10_000
	// stepMin is the least time between two steps, and stepMax the greatest.
	stepMin, stepMax = time.Second, 5 * time.Second
	// lookEvery is the time between two comparisons of the epochs.
	lookEvery = time.Minute
	// loadRuns bounds the number of runs that are read at once with their attempts, and pageRuns the number
	// without attempts.
	loadRuns, pageRuns = 50, 1000
	// lastMax bounds the time of the last step when a node ends.
	lastMax = 3 * time.Second
	// namesMax bounds the names of workflows and nodes that are kept.
	namesMax = 1000
)

// Config holds the settings and the dependencies of an Exporter.
type Config struct {
	Settings
	Store            store.Store
	Owner            func() dag.HandlerID // returns the owner of this node's shards
	Owns             func(dag.ShardID) bool
	Graphs           tally.Graphs
	Cluster, Version string
	Node             string // the name of this node
	Log              *slog.Logger
}

// Exporter exports the ended runs of the shards that this node owns. A nil Exporter exports nothing.
type Exporter struct {
	cfg       Config
	client    *http.Client
	rpc       *connect.Client[frame, frame] // nil if the collector is called over HTTP
	sleep     func(context.Context, time.Duration) error
	wake      chan struct{} // cap 1
	workflows *lru.Loader[dag.WorkflowID, string]
	nodes     *lru.Cache[dag.HandlerID, string]

	mu   sync.Mutex // protects the following fields
	held map[dag.ShardID][]store.Ended
	all  int
	lost map[dag.ShardID]bool // some ends of the shard were dropped

	// The following fields are used by Run only.
	shards map[dag.ShardID]*progress
	count  int // the number of shards of the database; 0 if not read yet
	looked time.Time
	told   string // the last logged error
	broken bool   // the collector has answered all calls of the last delivery with errBroken
	full   bool   // the collector has refused all spans of the last delivery, however few, with errExhausted

	stats stats
}

// stats are the counts of the exporter.
type stats struct {
	runs                    [outcomes]atomic.Int64
	sent, rejected, leftOut atomic.Int64 // spans
	failed                  atomic.Int64 // calls
	// waiting is the end of the oldest run that is not exported yet; 0 if there is none.
	waiting atomic.Int64
}

// The outcomes of runs.
const (
	outSent = iota
	outUnsampled
	outRejected // the collector refused some spans for ever
	outGone     // the run was deleted before its export, or is damaged
	outcomes
)

var outcomeNames = [outcomes]string{"sent", "unsampled", "rejected", "gone"}

// progress is how far a shard is exported.
//
// Invariant: every end after seq under epoch is in Exporter.held, or comes there.
type progress struct{ epoch, seq int64 }

// New returns an Exporter. It returns nil if the settings name no collector.
func New(c Config) *Exporter {
	if c.URL == "" {
		return nil
	}
	x := &Exporter{cfg: c, client: newClient(c.Protocol), sleep: host.Sleep, wake: make(chan struct{}, 1), held: map[dag.ShardID][]store.Ended{}, lost: map[dag.ShardID]bool{},
		shards: map[dag.ShardID]*progress{}, nodes: lru.New[dag.HandlerID, string](namesMax, namesMax*64)}
	x.workflows = lru.NewLoader(namesMax, func(id dag.WorkflowID) (string, error) {
		w, err := c.Store.WorkflowByID(context.Background(), id)
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Sprintf("workflow %d", id), nil
		}
		return w.Namespace + "/" + w.Name, err
	})
	if c.Protocol == ProtocolGRPC {
		x.rpc = rpc(x.client, c.URL)
	}
	return x
}

// Ended receives the ends of one committed transaction. It is called in the order of the shard's
// transactions. It does not block.
func (x *Exporter) Ended(ends []store.Ended) {
	if x == nil {
		return
	}
	x.mu.Lock()
	for i := range ends {
		s := ends[i].Shard
		if x.all >= queueMax {
			x.all -= len(x.held[s])
			x.held[s], x.lost[s] = nil, true
		}
		if !x.lost[s] {
			x.held[s] = append(x.held[s], ends[i])
			x.all++
		}
	}
	x.mu.Unlock()
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

// Run exports until ctx ends, and then one last time.
func (x *Exporter) Run(ctx context.Context) {
	if x == nil {
		return
	}
	defer x.client.CloseIdleConnections()
	tick := time.NewTicker(stepMax)
	defer tick.Stop()
	for {
		x.tell(ctx, x.step(ctx))
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastMax)
			_ = x.step(last) // the next owner finds the remaining work in the rows
			cancel()
			return
		case <-x.wake:
		case <-tick.C:
		}
		_ = x.sleep(ctx, stepMin) // the end of ctx is noticed after the next step
	}
}

// tell logs an error, unless it equals the last logged error.
func (x *Exporter) tell(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err == nil:
		x.told = ""
	case err.Error() != x.told:
		x.told = err.Error()
		x.cfg.Log.Warn("ended runs cannot be exported as traces; they wait until the collector and the database answer", "code", "traces_behind", "err", err)
	}
}

// step exports all known ends.
func (x *Exporter) step(ctx context.Context) (failed error) {
	if x.count == 0 {
		info, err := x.cfg.Store.Info(ctx)
		if err != nil {
			return err
		}
		x.count = info.Shards
	}
	if err := x.look(ctx); err != nil {
		return err
	}
	for s := range dag.ShardID(x.count) {
		if !x.cfg.Owns(s) {
			x.forget(s)
			continue
		}
		err := x.shard(ctx, s)
		if err != nil {
			delete(x.shards, s) // makes the exporter read the rows after the position
		}
		if err != nil && !errors.Is(err, store.ErrFenced) {
			failed = errors.Join(failed, fmt.Errorf("shard %d: %w", s, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if failed == nil {
		x.stats.waiting.Store(0)
	}
	return failed
}

// forget removes the data about a shard that another node owns now.
func (x *Exporter) forget(s dag.ShardID) {
	delete(x.shards, s)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.all -= len(x.held[s])
	delete(x.held, s)
	delete(x.lost, s)
}

// look removes the progress of shards that this node lost and got again since the last check.
func (x *Exporter) look(ctx context.Context) error {
	if now := time.Now(); len(x.shards) == 0 || now.Sub(x.looked) < lookEvery && !now.Before(x.looked) {
		return nil
	}
	marks, err := x.cfg.Store.Marks(ctx)
	if err != nil {
		return err
	}
	x.looked = time.Now()
	for _, m := range marks {
		if p := x.shards[m.Shard]; p != nil && p.epoch != m.Epoch {
			delete(x.shards, m.Shard)
		}
	}
	return nil
}

// take removes and returns the waiting ends of a shard. behind reports whether ends are missing between the
// progress and the returned ends.
func (x *Exporter) take(s dag.ShardID, p *progress) (ends []store.Ended, behind bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p == nil || x.lost[s] {
		return nil, true
	}
	for i := range x.held[s] {
		switch e := &x.held[s][i]; {
		case e.Epoch > p.epoch:
			return nil, true
		case e.Epoch == p.epoch && e.Seq > p.seq:
			ends = append(ends, *e)
		}
	}
	x.all -= len(x.held[s])
	delete(x.held, s)
	return ends, false
}

// shard exports the ends of a shard.
func (x *Exporter) shard(ctx context.Context, s dag.ShardID) error {
	p := x.shards[s]
	ends, behind := x.take(s, p)
	if behind {
		var err error
		if p, err = x.catchUp(ctx, s); err != nil {
			return err
		}
		x.shards[s] = p
		if ends, behind = x.take(s, p); behind {
			return nil // the next step tries again
		}
	}
	for len(ends) > 0 {
		n := min(loadRuns, len(ends))
		for n < len(ends) && ends[n].Seq == ends[n-1].Seq {
			n++ // the position is between transactions
		}
		if err := x.export(ctx, ends[:n]); err != nil {
			return err
		}
		last := &ends[n-1]
		if err := x.move(ctx, p, store.TraceMark{Shard: s, Epoch: last.Epoch, Seq: last.Seq, At: last.Finished}); err != nil {
			return err
		}
		ends = ends[n:]
	}
	return nil
}

// move writes the position of a shard.
func (x *Exporter) move(ctx context.Context, p *progress, to store.TraceMark) error {
	if err := x.cfg.Store.PutTraceMark(ctx, x.cfg.Owner(), to); err != nil {
		return err
	}
	p.epoch, p.seq = to.Epoch, to.Seq
	return nil
}

// export sends those ends that are sampled.
func (x *Exporter) export(ctx context.Context, ends []store.Ended) error {
	out := &batch{x: x}
	for len(ends) > 0 {
		n := min(loadRuns, len(ends))
		var ids []dag.RunID
		wanted := map[dag.RunID][]*store.Ended{}
		for i := range ends[:n] {
			e := &ends[i]
			x.stats.waiting.CompareAndSwap(0, int64(e.Finished))
			if !x.cfg.sampled(e.Root, e.Trace) {
				x.stats.runs[outUnsampled].Add(1)
				continue
			}
			if wanted[e.ID] == nil {
				ids = append(ids, e.ID)
			}
			wanted[e.ID] = append(wanted[e.ID], e)
		}
		if err := x.load(ctx, ids, func(rec *store.RunRecord) error {
			return x.known(ctx, out, rec, wanted[rec.Run.ID])
		}); err != nil {
			return err
		}
		ends = ends[n:]
	}
	return out.flush(ctx)
}

// load reads runs with their attempts. It counts the runs that cannot be read any more.
func (x *Exporter) load(ctx context.Context, ids []dag.RunID, see func(*store.RunRecord) error) error {
	if len(ids) == 0 {
		return nil
	}
	recs, err := x.cfg.Store.Load(ctx, store.LoadQuery{IDs: ids})
	if err != nil {
		return err
	}
	x.stats.runs[outGone].Add(int64(len(ids) - len(recs)))
	for i := range recs {
		if recs[i].Bad != nil {
			x.stats.runs[outGone].Add(1)
		} else if err := see(&recs[i]); err != nil {
			return err
		}
	}
	return nil
}

// known exports the ends of a run that the writer has reported.
func (x *Exporter) known(ctx context.Context, out *batch, rec *store.RunRecord, told []*store.Ended) error {
	if rec.Run.Generation == 1 {
		end := tally.EndOf(told[0])
		return out.add(ctx, rec, &end)
	}
	all, err := x.ends(ctx, rec)
	if err != nil {
		return err
	}
	for i := range all {
		for _, e := range told {
			if all[i].Seq == e.Seq {
				if err := out.add(ctx, rec, &all[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ends reads all ends of a run from its history. A run whose history is damaged has none.
func (x *Exporter) ends(ctx context.Context, rec *store.RunRecord) (all []tally.End, err error) {
	var events []dag.EventRow
	for after := int64(-1); ; {
		page, err := x.cfg.Store.Events(ctx, rec.Run.ID, after, pageRuns)
		if err == nil {
			events = append(events, page...)
		}
		if err == nil && len(page) == pageRuns {
			after = page[len(page)-1].Seq
			continue
		}
		if err == nil {
			all, err = tally.Ends(&rec.Run, events)
		}
		if errors.Is(err, store.ErrCorrupt) {
			x.stats.runs[outGone].Add(1)
			return nil, nil
		}
		return all, err
	}
}

// Show writes the metrics of the exporter.
func (x *Exporter) Show(p *metric.Page) {
	if x == nil {
		return
	}
	for i, name := range outcomeNames {
		p.Set("trace_runs_total", float64(x.stats.runs[i].Load()), name)
	}
	p.Set("trace_spans_total", float64(x.stats.sent.Load()), "sent")
	p.Set("trace_spans_total", float64(x.stats.rejected.Load()), "rejected")
	p.Set("trace_spans_total", float64(x.stats.leftOut.Load()), "left_out")
	p.Set("trace_calls_failed_total", float64(x.stats.failed.Load()))
	lag := time.Duration(0)
	if at := x.stats.waiting.Load(); at != 0 {
		lag = max(0, time.Since(dag.Micros(at).Time()))
	}
	p.Duration("trace_lag_seconds", lag)
}
