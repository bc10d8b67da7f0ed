package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"skein.dev/skein/internal/retention"
	"skein.dev/skein/internal/store"
)

// stopWait bounds the time for stopping each part after the attempts have ended.
const stopWait = 5 * time.Second

// obeyWait bounds how long a command waits for attempts that it has ordered to end. It is longer than their
// usual grace period.
const obeyWait = 15 * time.Second

// service is a part of a node that runs in its own goroutine.
type service struct {
	cancel context.CancelFunc
	ended  chan error // cap 1
}

// launch runs a part in a goroutine until stop is called, ctx ends, or the part returns.
func launch(ctx context.Context, run func(context.Context) error) *service {
	ctx, cancel := context.WithCancel(ctx)
	s := &service{cancel, make(chan error, 1)}
	go func() { s.ended <- run(ctx) }()
	return s
}

// stop ends the part and returns its error.
func (s *service) stop() error {
	s.cancel()
	return <-s.ended
}

// failed records that the error of a part is already known, so that stop returns nil.
func (s *service) failed(err error) error {
	s.ended <- nil
	return err
}

// quiet adapts the function of a part that returns no error.
func quiet(run func(context.Context)) func(context.Context) error {
	return func(ctx context.Context) error {
		run(ctx)
		return nil
	}
}

// work runs the parts of the node until ctx ends or one of them fails.
//
// At the start, the attempts that the keeper holds are reported first. Then all parts begin that need no
// caller. Requests are answered once the engine owns its shards and the address is announced. The node joins
// the other members last, because a node that takes shards of other nodes must be able to answer.
//
// At the end, the parts that could begin new work stop first. Then the attempts end, with their reports and
// logs. Then the node leaves the other members. The parts that wrote all of this stop last. The HTTP server
// stops after the engine, because callers wait for answers of the engine.
func (n *Node) work(ctx context.Context) error {
	n.worker.Begin()
	n.executor.Replay(n.adopted)
	free := context.WithoutCancel(ctx) // the parts do not end with ctx, but when their stop functions are called
	remembering := launch(free, n.past.Run)
	acknowledging := launch(free, quiet(func(ctx context.Context) { n.executor.Acknowledge(ctx, n.members.pending) }))
	stopAudit, stopNotices := keepAudit(n), sendNotices(n)
	running := launch(free, n.engine.Run)
	shipping, counting := launch(free, quiet(n.shipper.Run)), launch(free, quiet(n.upkeep.tally.Run))
	exporting := launch(free, quiet(n.upkeep.traces.Run))
	sealing := launch(free, quiet(n.depot.Run))
	watching := launch(ctx, n.look)
	forgetting := launch(ctx, quiet(retention.New(n.retention()).Run))

	stopMembers := func() error { return nil }
	var err error
	select {
	case <-n.engine.Ready():
		err = announce(n) // this comes first, because the calls of workers need the token of this process
		serving := launch(free, func(context.Context) error { return n.serve() })
		if err == nil {
			close(n.ready)
			n.log.Info("the node is ready", "code", "node_ready", "url", n.URL(), "data", n.cfg.Data, "slots", n.cfg.Slots)
			var failed <-chan error
			stopMembers, failed = n.members.run(ctx)
			err = n.until(ctx, running, serving, failed)
			n.members.leave()
		}
	case err = <-running.ended:
		err = running.failed(err)
	case <-ctx.Done():
	}

	err = errors.Join(err, watching.stop())
	_ = forgetting.stop()
	n.drain()
	n.shipRest()
	err = errors.Join(err, stopMembers())
	_, _ = remembering.stop(), acknowledging.stop()
	stopNotices()
	_, _, _ = shipping.stop(), counting.stop(), sealing.stop()
	_ = exporting.stop()
	err = errors.Join(err, running.stop(), n.stopHTTP())
	stopAudit()
	err = errors.Join(err, n.release())
	n.log.Info("the node has stopped", "code", "node_stopped")
	return err
}

func (n *Node) serve() error {
	if n.http.TLSConfig != nil {
		return n.http.ServeTLS(n.conns, "", "")
	}
	return n.http.Serve(n.conns)
}

// byHand reports whether this process starts nothing by itself. A command that joins a cluster of servers
// owns some of the shards, so it does for these shards what a server would do.
func (n *Node) byHand() bool { return n.cfg.ByHand && n.members.alone() }

// sensors lists the sensors that this node must run.
func (n *Node) sensors(ctx context.Context, kinds []string, after store.TriggerKey, limit int) ([]store.Trigger, error) {
	if n.byHand() {
		return nil, nil
	}
	return n.engine.Sensors(ctx, kinds, after, limit)
}

// greet fires the triggers of kind start, because the scheduler has started. life names this start.
func (n *Node) greet(ctx context.Context, life string) {
	if n.cfg.ByHand {
		return
	}
	if err := n.engine.Greet(ctx, life); err != nil && ctx.Err() == nil {
		n.log.Error("triggers of kind start cannot be fired; start their runs by hand", "code", "start_triggers_failed", "err", err)
	}
}

// look runs the sensors once the engine owns a shard.
func (n *Node) look(ctx context.Context) error {
	select {
	case <-n.engine.Ready():
		n.members.started(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		if n.sweeps() && !n.cfg.Hold {
			wg.Go(func() { n.recovery.Run(ctx) })
		}
		wg.Go(func() { n.feeds.Run(ctx) })
		wg.Go(func() { n.feeder.Run(ctx) })
		if !n.cfg.ByHand {
			wg.Go(func() { n.git.Run(ctx) })
		}
		wg.Go(func() { n.resolver.Awaited().Run(ctx) })
		return n.watch.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// until waits until ctx ends or a part fails.
func (n *Node) until(ctx context.Context, engine, http *service, member <-chan error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-engine.ended:
		return n.stranded(engine.failed(err))
	case err := <-http.ended:
		return err
	case <-ended(n.store):
		return n.stranded(store.ErrLost)
	case err := <-n.judge.Lost():
		return err
	case err := <-member:
		n.Hurry() // other nodes have taken the attempts that run here
		return err
	}
}

// stranded records the reason why no further write is possible, if there is one.
func (n *Node) stranded(err error) error {
	if n.over = err != nil; n.over {
		n.log.Error("the database cannot be written any more, so the node ends; its attempts continue for its next start; repair the disk", "code", "store_lost", "err", err)
	}
	return err
}

// ended returns a channel that is closed when the store has failed permanently. On an idle server, the engine
// could take hours to notice that.
func ended(st store.Store) <-chan struct{} {
	if m := store.Can(st).Mortal; m != nil {
		return m.Lost()
	}
	return nil
}

// drain ends the attempts and makes the engine write their reports.
func (n *Node) drain() {
	n.leaving.Store(true)
	n.engine.Drain()
	n.executor.Hold()
	if n.over { // no owner would accept a report
		return
	}
	if n.cfg.Hold { // the next process will adopt the attempts that still run
		over, cancel := context.WithTimeout(context.Background(), obeyWait)
		n.barrier() // an attempt gets a stop only after the stop was committed
		n.executor.Obeyed(over)
		cancel()
		n.barrier()
		return
	}
	if left := n.executor.UnderWay(); left > 0 {
		n.log.Info("the shutdown waits for running attempts; a second signal ends them now", "code", "draining", "attempts", left, "drain", n.cfg.Drain)
	}
	timer := time.NewTimer(n.cfg.Drain)
	defer timer.Stop()
	select {
	case <-n.executor.Drained():
	case <-timer.C:
	case <-n.hurry:
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	n.executor.Wait()
	if err := n.worker.Close(over); err != nil {
		n.log.Error("the worker did not close; the next start recovers its attempts", "code", "worker_not_closed", "err", err)
	}
	n.barrier()
}

// barrier waits until all reports are written.
func (n *Node) barrier() {
	barrier, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.engine.Barrier(barrier); err != nil {
		n.log.Warn("the last reports may be lost; their attempts run again", "code", "reports_lost", "err", err)
	}
}

// shipRest sends the remaining output to the log store that other nodes read.
func (n *Node) shipRest() {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := errors.Join(n.shipper.Flush(ctx), n.depot.Flush(ctx)); err != nil {
		n.log.Warn("the end of some logs is on this machine only", "code", "logs_unsent", "err", err)
	}
}

func (n *Node) stopHTTP() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := n.http.Shutdown(ctx); err != nil {
		return n.http.Close()
	}
	return nil
}

// release closes what Open opened, in the reverse order.
func (n *Node) release() error {
	var errs []error
	n.stopRenewals()
	switch {
	case n.worker == nil:
	case n.executor != nil && n.executor.UnderWay() > 0 || n.engine.Engine == nil && len(n.adopted.Running)+len(n.adopted.Ended) > 0:
		n.worker.Leave() // this process was only a reader; the next one continues with the attempts
	default:
		over, cancel := context.WithCancel(context.Background())
		cancel()
		errs = append(errs, n.worker.Close(over)) // a second call does nothing
		n.worker.End()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.listener != nil {
		_ = n.listener.Close() // the HTTP server has already closed it
	}
	if n.lock != nil {
		errs = append(errs, n.own.Remove(), n.lock.Release())
	}
	return errors.Join(errs...)
}
