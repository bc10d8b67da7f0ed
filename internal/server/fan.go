package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of a fan. A single program gets each change at once. The more streams there are, the more changes
// share a write, so the cost of 1,000 streams does not grow with the number of commits.
const (
	// fanSpanEach is the least time between two batches, for each stream, and fanSpanMax bounds it.
	fanSpanEach = time.Millisecond
	fanSpanMax  = 100 * time.Millisecond
	// fanBytes bounds a batch, multiplied by the number of streams. A stream's share is at least fanBytesMin. A
	// larger batch is replaced by a reset.
	fanBytes    = 8 << 20
	fanBytesMin = 16 << 10
	// fanKept and fanKeptBytes bound the batches that wait for slow streams. A stream that is further behind
	// gets a reset.
	fanKept      = 256
	fanKeptBytes = 8 << 20
)

var resetFrame = []byte("event: reset\ndata: {}\n\n")

// fanKey says what a fan sends.
type fanKey struct {
	run  dag.RunID // zero means all runs
	here bool      // only the commits of this node
}

// fans are the open fans of a server.
type fans struct {
	s    *Server
	mu   sync.Mutex // protects following fields
	open map[fanKey]*fan
}

// fan encodes the changes of one run or of all runs once, for all streams of them.
type fan struct {
	s     *Server
	key   fanKey
	sub   *engine.Subscription
	stop  context.CancelFunc
	begun chan struct{} // closed when the streams of the other nodes have begun
	gone  chan struct{} // closed when run has returned

	streams int // protected by fans.mu

	mu    sync.Mutex // protects following fields
	share int        // copy of streams
	kept  []*burst
	first int64 // number of kept[0]
	bytes int   // sum of the sizes of kept
	over  bool  // the node stops; no batch follows
	wake  chan struct{}
}

// change is one encoded change.
type change struct {
	run      dag.RunID
	workflow string // NAMESPACE/NAME
	seq      int64
	data     []byte
}

// burst is a number of changes that all streams of a fan get at once.
type burst struct {
	frames []change
	all    []byte // the frames
	public []byte // those without the runs of the program itself
}

// join returns the fan of a key, and the number of its next batch. The caller calls leave.
func (a *fans) join(key fanKey) (f *fan, next int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f = a.open[key]; f == nil {
		ctx, stop := context.WithCancel(context.Background())
		f = &fan{s: a.s, key: key, sub: a.s.engine.Watch(key.run), stop: stop, begun: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{})}
		if a.open == nil {
			a.open = map[fanKey]*fan{}
		}
		a.open[key] = f
		go f.run(ctx)
	}
	f.streams++
	f.mu.Lock()
	defer f.mu.Unlock()
	f.share = f.streams
	return f, f.first + int64(len(f.kept))
}

// leave ends a stream. The last stream of a fan waits for the fan's end.
func (a *fans) leave(f *fan) {
	a.mu.Lock()
	f.streams--
	f.mu.Lock()
	f.share = f.streams
	f.mu.Unlock()
	last := f.streams == 0
	if last {
		delete(a.open, f.key)
	}
	a.mu.Unlock()
	if last {
		f.stop()
		<-f.gone
	}
}

// bounds returns the least time between two batches, and the most bytes of one.
func (f *fan) bounds() (span time.Duration, most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := max(f.share, 1)
	return min(time.Duration(n)*fanSpanEach, fanSpanMax), max(fanBytes/n, fanBytesMin)
}

// run publishes batches until ctx ends or the engine stops.
func (f *fan) run(ctx context.Context) {
	defer close(f.gone)
	defer f.sub.Close()
	var others <-chan []byte
	if of := f.s.cfg.Neighbours; of != nil && !f.key.here && f.key.run.IsZero() { // a single run is read from the store, on any node
		r := relayed(ctx, of, url.Values{"system": {"true"}})
		others = r.frames
		defer r.wg.Wait()
	}
	close(f.begun)
	last := time.Now().Add(-fanSpanMax)
	for {
		var p pending
		span, most := f.bounds()
		select {
		case n, open := <-f.sub.C:
			if !open {
				f.end()
				return
			}
			p.notice(&n)
		case raw := <-others:
			p.relay(raw, most)
		case <-ctx.Done():
			return
		}
		if !p.wait(ctx, others, span-time.Since(last), most) {
			return
		}
		for range len(f.sub.C) {
			n, open := <-f.sub.C
			if !open {
				f.end()
				return
			}
			p.notice(&n)
		}
		b := f.batch(ctx, &p, most)
		last = time.Now()
		f.publish(b)
	}
}

// pending are the changes that become a batch.
type pending struct {
	notices []engine.Notice
	frames  []change // of other nodes
	bytes   int      // the size of frames
	lost    bool     // some changes are missing
}

func (p *pending) notice(n *engine.Notice) {
	p.lost = p.lost || n.Lost
	p.notices = append(p.notices, *n)
}

// relay adds a frame of another node. A nil frame means that some frames were missed.
func (p *pending) relay(raw []byte, most int) {
	p.bytes += len(raw)
	if raw == nil || p.bytes > most {
		p.lost, p.frames = true, nil
	}
	if p.lost {
		return
	}
	fr, ok := frameOf(raw)
	if !ok {
		p.lost = true
		return
	}
	p.frames = append(p.frames, fr)
}

// wait takes frames of other nodes for a time. It reports whether ctx has not ended.
func (p *pending) wait(ctx context.Context, others <-chan []byte, d time.Duration, most int) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case raw := <-others:
			p.relay(raw, most)
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// frameOf reads the run and the workflow of a frame of another node.
func frameOf(raw []byte) (fr change, ok bool) {
	_, data, found := bytes.Cut(raw, []byte("\ndata: "))
	var is struct {
		Run      string `json:"run"`
		Workflow string `json:"workflow"`
		Seq      int64  `json:"seq"`
	}
	if !found || json.Unmarshal(data, &is) != nil {
		return fr, false
	}
	run, err := dag.ParseRunID(is.Run)
	return change{run: run, workflow: is.Workflow, seq: is.Seq, data: raw}, err == nil
}

// batch encodes changes. A batch without frames is a reset.
func (f *fan) batch(ctx context.Context, p *pending, most int) *burst {
	frames, size := p.frames, p.bytes
	names := map[dag.WorkflowID]string{} // a name is read for each batch, because a restored database can have another one
	for i := range p.notices {
		if p.lost || size > most {
			return &burst{}
		}
		fr, err := f.encode(ctx, &p.notices[i], names)
		if err != nil { // the store does not answer, or the run is deleted
			f.s.log.Debug("event stream", "err", err)
			return &burst{}
		}
		frames, size = append(frames, fr), size+len(fr.data)
	}
	if p.lost || size > most {
		return &burst{}
	}
	b := &burst{frames: frames, all: make([]byte, 0, size)}
	own := 0
	for i := range frames {
		at := len(b.all)
		b.all = append(b.all, frames[i].data...)
		frames[i].data = b.all[at:len(b.all):len(b.all)]
		if builtIn(frames[i].workflow) {
			own++
		}
	}
	b.public = b.all
	if own > 0 {
		public := topics{}
		b.public = b.chosen(func(fr *change) bool { return public.want(fr) })
	}
	return b
}

// encode makes the frame of a notice.
func (f *fan) encode(ctx context.Context, n *engine.Notice, names map[dag.WorkflowID]string) (fr change, err error) {
	name := &runName{workflow: names[n.Workflow]}
	name.row.ID, name.row.Workflow, name.row.Version = n.Run, n.Workflow, n.Version
	switch {
	case n.Workflow == 0:
		name, err = f.s.runName(ctx, n.Run)
	case name.workflow == "":
		w, failed := f.s.engine.WorkflowByID(ctx, n.Workflow)
		err, name.workflow = failed, fullName(w.Namespace, w.Name)
		names[n.Workflow] = name.workflow
	}
	if err != nil {
		return fr, err
	}
	records, err := f.s.engine.Records(ctx, &name.row, n.Records)
	if err != nil {
		return fr, err
	}
	data, err := encodeChange(name, n.Seq, n.At, eventsOf(n.Run, n.Seq, n.At, records))
	return change{run: n.Run, workflow: name.workflow, seq: n.Seq, data: data}, err
}

// encodeChange makes the text of a change in a stream.
func encodeChange(n *runName, seq int64, at dag.Micros, events []api.Event) ([]byte, error) {
	data, err := json.Marshal(api.Change{Run: n.row.ID.String(), Workflow: n.workflow, Seq: seq, At: instant(at), Events: events})
	if err != nil {
		return nil, fmt.Errorf("encode a change: %w", err)
	}
	return fmt.Appendf(nil, "id: %d\nevent: change\ndata: %s\n\n", seq, data), nil
}

// chosen returns some of the frames.
func (b *burst) chosen(want func(*change) bool) (out []byte) {
	for i := range b.frames {
		if want(&b.frames[i]) {
			out = append(out, b.frames[i].data...)
		}
	}
	return out
}

// of returns the part of a batch for a stream that has seen its run up to a transaction.
func (b *burst) of(t *topics, seen int64) []byte {
	switch {
	case len(b.frames) == 0:
		return resetFrame
	case seen > 0:
		return b.chosen(func(fr *change) bool { return fr.seq > seen && t.want(fr) })
	case t.all() && t.system:
		return b.all
	case t.all():
		return b.public
	}
	return b.chosen(t.want)
}

// publish makes a batch available to all streams.
func (f *fan) publish(b *burst) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept, f.bytes = append(f.kept, b), f.bytes+len(b.all)
	for len(f.kept) > fanKept || len(f.kept) > 1 && f.bytes > fanKeptBytes {
		f.bytes -= len(f.kept[0].all)
		f.kept[0] = nil
		f.kept, f.first = f.kept[1:], f.first+1
	}
	close(f.wake)
	f.wake = make(chan struct{})
}

// end says that no batch follows.
func (f *fan) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	close(f.wake)
	f.wake = make(chan struct{})
}

// take returns the batch with a number, and the number of the batch after it. If the batch is kept no more,
// take returns a reset. If the batch does not exist yet, take returns a channel that is closed when it does.
func (f *fan) take(number int64) (b *burst, next int64, wake <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	end := f.first + int64(len(f.kept))
	switch {
	case number < f.first:
		return &burst{}, end, nil, nil
	case number < end:
		return f.kept[number-f.first], number + 1, nil, nil
	case f.over:
		return nil, number, nil, errEnded
	}
	return nil, number, f.wake, nil
}

// builtIn reports whether a workflow belongs to the program itself.
func builtIn(workflow string) bool { return strings.HasPrefix(workflow, engine.SystemNamespace+"/") }
