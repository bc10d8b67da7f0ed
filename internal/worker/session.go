package worker

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"
)

// respawnMax bounds the pause between two tries to start a keeper.
const respawnMax = 5 * time.Second

// silencesMax is the number of consecutive pings to which a keeper may send no answer. pingsPerLease is the
// number of pings in a lease. The link counts pings and does not measure time, because a process that was
// frozen would count time in which it sent no ping.
const (
	pingsPerLease = 4
	silencesMax   = 4
)

// supervise keeps a keeper running until End.
func (l *Link) supervise() {
	for {
		l.mu.Lock()
		p := l.peer
		l.mu.Unlock()
		l.talk(p)
		l.mu.Lock()
		l.peer = nil
		over := l.ended
		l.mu.Unlock()
		if over {
			return
		}
		l.log.Error("the keeper has died; its attempts are lost, and another keeper starts; look for an out-of-memory kill", "code", "keeper_gone", "pid", p.pid)
		p.kill()
		if !l.replace() {
			return
		}
	}
}

// replace starts the next keeper. It tries until the keeper runs.
func (l *Link) replace() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, respawnMax) {
		p, w, err := l.find(ctx)
		if err == nil {
			l.meet(p, w)
			return true
		}
		if ctx.Err() == nil {
			l.log.Error("no keeper can be started, so no attempt runs on this machine", "code", "keeper_not_started", "err", err)
		}
		select {
		case <-l.stop:
			return false
		case <-time.After(pause):
		}
	}
}

// meet settles the attempts of the previous keeper with a new keeper. The new keeper knows the ends in the
// journal; all other attempts are lost. Afterwards meet sends the new keeper the jobs that no keeper has had.
func (l *Link) meet(p *peer, w *welcome) {
	known := map[ID]bool{}
	for _, h := range w.Running {
		known[h.Key.ID()] = true
	}
	l.settle(w.Ended...)
	var lost []Key
	l.mu.Lock()
	l.peer, l.said, l.rebases, l.masks, l.kinds, l.handles = p, w.Containment, w.Rebases, w.Masks, w.Kinds, w.Handles
	l.out, l.outSize, l.ponged = order{Tag: l.tag, Renew: l.renewed, Taken: l.out.Taken, Base: baseEnv(l.pass)}, 0, l.pinged
	if l.closing {
		l.out.Kill = true
	}
	for id, st := range l.live {
		switch {
		case known[id]:
			st.sent = p
		case st.sent != nil:
			lost = append(lost, st.key)
		case st.ready:
			l.queue(st)
		}
	}
	l.mu.Unlock()
	ends := make([]Result, 0, len(lost))
	for _, key := range lost {
		r := Result{Key: key, State: Stopped, Cause: CauseLost, ExitCode: -1, Message: "its keeper died", Finished: time.Now()}
		if info, err := os.Stat(LogPath(l.data, key)); err == nil {
			r.LogBytes = info.Size()
		}
		ends = append(ends, r)
	}
	l.settle(ends...)
}

// talk sends and receives until the connection ends.
func (l *Link) talk(p *peer) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() { l.send(p, over) })
	wg.Go(func() { l.ping(p, over) })
	for {
		var n news
		if err := p.read(&n); err != nil {
			break
		}
		l.hear(&n)
	}
	close(over)
	_ = p.stream.conn.Close()
	wg.Wait()
}

func (l *Link) send(p *peer, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-l.wake:
		}
		runtime.Gosched() // orders that other goroutines are about to add are sent in the same message
		for {
			o := l.next(p)
			if o == nil {
				break
			}
			if err := p.write(o); err != nil {
				_ = p.stream.conn.Close() // closing the connection wakes the reader
				return
			}
		}
	}
}

// next returns the next message, or nil if there is none. If the jobs are too large for one message, it
// returns a part of them.
func (l *Link) next(p *peer) *order {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peer != p || l.out.empty() {
		return nil
	}
	o := l.out
	l.out = order{}
	if l.outSize > wireBatch {
		size, n := 0, 0
		for n < len(o.Jobs) && (n == 0 || size+o.Jobs[n].size() <= wireBatch) {
			size += o.Jobs[n].size()
			n++
		}
		// Orders about jobs must follow the jobs.
		l.out = order{Jobs: o.Jobs[n:], Stops: o.Stops, Kill: o.Kill, End: o.End}
		o.Jobs, o.Stops, o.Kill, o.End = o.Jobs[:n:n], nil, false, false
		if len(l.out.Jobs) == 0 && l.out.Jobs != nil {
			l.out.Jobs = nil
		}
		l.outSize -= size
	} else {
		l.outSize = 0
	}
	return &o
}

func (o *order) empty() bool {
	return o.Hello == nil && o.Renew == 0 && o.Ping == 0 && o.Tag == nil && len(o.Jobs)+len(o.Stops)+len(o.Taken) == 0 && !o.Kill && !o.End && !o.Release && o.Base == nil
}

// ping kills a keeper that has not answered for about a lease, because a frozen keeper could not end its
// attempts in time.
func (l *Link) ping(p *peer, over <-chan struct{}) {
	tick := time.NewTicker(l.lease / pingsPerLease)
	defer tick.Stop()
	silences := 0
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		l.mu.Lock()
		if l.pinged > l.ponged {
			silences++
		} else {
			silences = 0
			l.pinged++
			l.out.Ping = l.pinged
			l.rouse()
		}
		l.mu.Unlock()
		if silences > silencesMax {
			l.log.Error("the keeper does not answer, and the worker kills it", "code", "keeper_silent", "pid", p.pid)
			p.kill()
			return
		}
	}
}

// hear handles a message of the keeper.
func (l *Link) hear(n *news) {
	if n.Pong != 0 {
		l.mu.Lock()
		l.ponged = max(l.ponged, n.Pong)
		l.mu.Unlock()
	}
	for _, line := range n.Lines {
		attrs := make([]any, len(line.Attrs))
		for i, a := range line.Attrs {
			attrs[i] = a
		}
		l.log.Log(context.Background(), slog.Level(line.Level), line.Text, attrs...)
	}
	if l.cfg.Started != nil {
		for _, h := range n.Started {
			l.cfg.Started(h.Key, h.Started, h.Handle, h.Adopts)
		}
	}
	l.settle(n.Results...)
}
