package engine

import (
	"context"
	"errors"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// After a node has died, its shards have no owner for a short time. A verb on a run of such a shard is
// posted: it becomes a message to the shard. The next owner processes the message before any other event of
// the run.

// posted is a verb in a message.
type posted struct {
	Run     dag.RunID
	Intent  dag.Intent `json:",omitempty"`
	Recover bool       `json:",omitempty"`
	Scope   dag.Scope  `json:",omitempty"`
	Mark    dag.Mark   `json:",omitempty"`
	Task    string     `json:",omitempty"`
	Outputs []byte     `json:",omitempty"`
	Actor   string     `json:",omitempty"`
	Reason  string     `json:",omitempty"`
}

// Post stores a command for the next owner of its run. When it returns without an error, the command is
// durable. It takes effect later, if the state of the run still allows it. A command with a known Request is
// not stored again.
func (e *Engine) Post(ctx context.Context, c Command) error {
	if e.cluster == nil {
		return fmt.Errorf("%w: this node is alone and owns every shard", errkind.ErrUnavailable)
	}
	if _, err := e.item(&c); err != nil {
		return err
	}
	row, err := e.store.Run(ctx, c.Run)
	if err != nil {
		return errkind.FromStore("run "+c.Run.String(), err)
	}
	now, err := e.store.Clock(ctx)
	if err != nil {
		return errkind.FromStore("read the clock", err)
	}
	said := posted{c.Run, c.Intent, c.Recover, c.Scope, c.Mark, c.Task, c.Outputs, c.Actor, c.Reason}
	var b store.Batch
	b.Messages = []store.Message{{From: row.Shard, To: row.Shard, Payload: envelope([]letter{{Posted: &said}}), Created: now}}
	if c.Request != nil {
		req := *c.Request
		req.Created = now
		b.Requests = []store.Request{req}
	}
	if row, ok := store.AuditOf(ctx); ok {
		b.Audit = []store.Audit{row}
	}
	_, err = e.store.Commit(ctx, &b)
	if c.Request != nil && (errors.Is(err, store.ErrRefused) || errors.Is(err, store.ErrUnknown)) {
		// An earlier call may have written the command, also through another node.
		was, other := e.store.Request(ctx, c.Request.Scope, c.Request.Key)
		if other == nil {
			return sameBody(was.Hash, c.Request.Hash)
		}
	}
	if err != nil {
		return errkind.FromStore("post the command", err)
	}
	e.cfg.Peers.Nudge(row.Shard)
	return nil
}

// takeIn applies a posted verb. It returns false if the verb must wait for the next transaction.
func (w *writer) takeIn(p *posted) (bool, error) {
	c := Command{Run: p.Run, Intent: p.Intent, Recover: p.Recover, Scope: p.Scope, Mark: p.Mark, Task: p.Task,
		Outputs: p.Outputs, Actor: p.Actor, Reason: p.Reason}
	it, err := w.e.item(&c)
	if err == nil {
		it.req = nil // the message is processed only once, so no request is stored
		if w.endedNow(&it) {
			return false, nil
		}
		a := w.event(&it)
		if err = a.err; err == nil && a.verdict > dag.Duplicate {
			err = fmt.Errorf("%w: the run has ended, or another order for it is stored", errkind.ErrConflict)
		}
	}
	if errors.Is(err, errkind.ErrUnavailable) {
		return true, err
	}
	if err != nil {
		w.e.log.Warn("a command for a run of another shard was dropped, because the run had changed before the command arrived", "code", "posted_verb_conflict", "run", p.Run.String(), "actor", p.Actor, "err", err)
	}
	return true, nil
}

type postingKey struct{}

// WithPosting returns a context in which a verb is posted if no node that owns the shard can be reached.
func WithPosting(ctx context.Context) context.Context {
	return context.WithValue(ctx, postingKey{}, true)
}

// PostingAllowed reports whether ctx comes from WithPosting.
func PostingAllowed(ctx context.Context) bool { return ctx.Value(postingKey{}) != nil }

// Tell carries out a command as Do does. If this node does not own the run and ctx allows posting, Tell
// posts the command.
func (e *Engine) Tell(ctx context.Context, c Command) error {
	err := e.Do(ctx, c)
	var moved *errkind.Elsewhere
	if errors.As(err, &moved) && PostingAllowed(ctx) {
		return e.Post(ctx, c)
	}
	return err
}
