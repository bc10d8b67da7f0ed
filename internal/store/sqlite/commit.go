package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// checkText returns ErrRefused for texts that some engine cannot hold: texts with NUL, invalid UTF-8, and
// texts that are too long.
func checkText(s string) error {
	if len(s) > textMax {
		return fmt.Errorf("a text has %d bytes, the limit is %d: %w", len(s), textMax, store.ErrRefused)
	}
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return fmt.Errorf("a text contains a NUL character or is not UTF-8: %w", store.ErrRefused)
	}
	return nil
}

// checkShard returns ErrRefused for a shard that does not exist, because no owner would ever find its rows.
func checkShard(id dag.ShardID) error {
	if id != theShard {
		return fmt.Errorf("there is no shard %d: %w", id, store.ErrRefused)
	}
	return nil
}

// Commit implements store.Store.
func (d *DB) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	w, err := d.write(ctx, b)
	if err == nil {
		err = d.sync(w)
	}
	if err != nil {
		d.handed.Failed(b)
		return 0, err
	}
	return wall(), nil
}

// write writes a batch into the log and commits it there.
func (d *DB) write(ctx context.Context, b *store.Batch) (w written, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() {
		if d.stages.over(b); err != nil {
			return
		}
		if a := d.stages.first(); a != nil {
			go d.writeAhead(a)
		}
	}()
	if err := ctx.Err(); err != nil {
		d.dropAhead()
		return w, fmt.Errorf("commit: %w: %w", store.ErrUnavailable, err)
	}
	if d.ahead.is(b) && !d.broken.Load() && d.alive() == nil {
		err, d.ahead = d.ahead.failed, nil
		if err == nil {
			w, err = d.end(nil)
		}
	} else if err = d.begin(); err == nil {
		w, err = d.end(d.apply(b))
	}
	if err == nil {
		d.checkpoints.wrote(b.Rows())
	}
	return w, err
}

// transact runs f in a transaction, and returns when the transaction is on the disk. It counts the changed
// rows for the checkpointer, because deleted rows are far apart, and each of them changes at least one page.
func (d *DB) transact(f func() error) error {
	if err := d.begin(); err != nil {
		return err
	}
	before := totalChanges(d.conn)
	w, err := d.end(f())
	if err == nil {
		d.checkpoints.wrote(totalChanges(d.conn) - before)
		err = d.sync(w)
	}
	return err
}

// begin begins a transaction.
func (d *DB) begin() error {
	if d.closed.Load() {
		return fmt.Errorf("the database is closed: %w", store.ErrUnavailable)
	}
	if err := d.alive(); err != nil {
		return err
	}
	d.dropAhead()
	if d.broken.Load() {
		if d.conn == nil {
			return fmt.Errorf("the database is open for reading only: %w", store.ErrUnavailable)
		}
		d.forget()
		if err := d.reopenWriter(); err != nil {
			return err
		}
	}
	d.checkpoints.restart(d.conn)
	_, err := d.stmts.begin.row().exec(d.conn)
	return err
}

// end ends a transaction: if err is nil, it commits the transaction to the log. If an error occurs before the
// COMMIT, nothing was written. If the COMMIT itself fails, the outcome is unknown and the connection is
// opened again, unless the disk is full.
func (d *DB) end(err error) (written, error) {
	if err == nil {
		w := written{d.syncs.write(), d.log}
		if _, err = d.stmts.commit.row().exec(d.conn); err == nil {
			d.keys.kept()
			return w, nil
		}
		_ = d.sync(w) // no caller waits for this sync, but earlier commits must be on the disk
		// SQLite notices a full disk when it writes the log, and it writes the mark of the commit last. So if
		// the disk is full, there is no commit. After any other error the outcome is unknown.
		if !errors.Is(err, store.ErrFull) {
			d.broken.Store(true)
			d.forget()
			return written{}, fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
	}
	d.rollback()
	return written{}, err
}

// rollback rolls back the transaction under way.
func (d *DB) rollback() {
	if !d.conn.AutocommitEnabled() { // after some errors SQLite has already rolled back
		if _, err := d.stmts.rollback.row().exec(d.conn); err != nil {
			d.broken.Store(true)
		}
	}
	d.keys.undo()
	d.forget()
}

// forget drops what memory knows about rows that a failed transaction has written.
func (d *DB) forget() {
	for _, s := range d.stmts.all {
		_ = s.Reset()
		clear(s.last)
	}
	d.numbers.reset()
	d.rolls.reset()
	d.moves.reset()
}

func (d *DB) apply(b *store.Batch) error {
	seq := int64(0)
	for i, f := range b.Fences {
		if i > 0 && b.Fences[i-1].Shard >= f.Shard {
			return fmt.Errorf("fences out of order: %w", store.ErrFenced)
		}
		if err := d.stmts.fence.row().int(int64(f.Shard)).int(f.Epoch).int(f.Seq).one(d.conn); err != nil {
			return err
		}
		if f.Shard == theShard {
			seq = f.Seq + 1
		}
	}
	if len(b.Fences) == 0 {
		if err := onlyInserts(b); err != nil {
			return err
		}
	}
	d.seq = seq
	if err := d.past.Begin(b.Events); err != nil {
		return err
	}
	if err := d.plan(b); err != nil {
		return err
	}
	for _, step := range []func(*store.Batch) error{d.runs, d.events, d.attempts, d.workflows, d.versions, d.requests, d.messages, d.schedules, d.queues, d.auditRows, d.alertRows, func(b *store.Batch) error { return writeUses(d, b) }} {
		if err := step(b); err != nil {
			return err
		}
	}
	return d.writeRolls()
}

// onlyInserts returns ErrRefused for writes that only an owner may make.
func onlyInserts(b *store.Batch) error {
	bad := len(b.RunUpdates)+len(b.AttemptInserts)+len(b.AttemptUpdates)+len(b.Events)+len(b.WorkflowInserts)+
		len(b.WorkflowUpdates)+len(b.Versions)+len(b.Consumed)+b.ScheduleChanges.Rows()+b.QueueChanges.Rows()+b.AlertChanges.Rows()+len(b.Uses)+len(b.Stocks)+len(b.Kept) > 0 || b.Watermark != 0
	for i := range b.RunInserts {
		bad = bad || b.RunInserts[i].State != dag.RunSubmitted
	}
	if bad {
		return fmt.Errorf("only the owner of a shard writes more than submitted runs, requests, messages and audit rows: %w", store.ErrFenced)
	}
	return nil
}

// plan decides how the attempts are written.
func (d *DB) plan(b *store.Batch) (err error) {
	d.hands, err = d.handed.Plan(b, packed.HandPacker{
		Hands:   true,
		Ends:    true,
		Weights: true,
		History: d.past.Tells,
		Look:    d.look,
	})
	return err
}

// look reads, inside of the transaction, which attempts have rows, and the packed attempts of their runs.
func (d *DB) look(runs []dag.RunID, has func(dag.RunID, dag.TaskID, dag.Token), hands func(dag.RunID, []byte) error) error {
	for _, id := range runs {
		n, err := d.number(id)
		if err != nil {
			return err
		}
		err = d.stmts.attemptsThere.row().int(n).each(func(r row) error {
			has(id, dag.TaskID(r.int()), dag.Token(r.int()))
			return nil
		})
		if err == nil {
			err = d.stmts.packedOfRun.row().int(n).each(func(r row) error { return hands(id, r.blob()) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) runs(b *store.Batch) error {
	for i := range b.RunInserts {
		r := &b.RunInserts[i]
		if err := checkShard(r.Shard); err != nil {
			return fmt.Errorf("run %s: %w", r.ID, err)
		}
		e := d.past.Of(r.ID)
		n := d.keys.nextNumber()
		s := d.stmts.insertRun.row().blob(r.ID[:]).int(int64(r.Shard)).int(int64(r.Workflow)).int(int64(r.Version)).
			text(r.Priority.String()).text(string(r.Origin)).text(r.User).textOrNull(r.Key).blob(r.KeyHash).blob(r.Params).
			int(int64(r.Created)).int(d.seq).int(int64(e.At)).blob(e.Records)
		if _, err := runState(s, r).blob(r.Fire.Pack()).blob(d.claims(r)).
			blob(d.hands.Take(r.ID)).int(n).exec(d.conn); err != nil {
			return err
		}
		d.numbers.put(r.ID, n)
		if err := d.key(r.Workflow, r.Key, n); err != nil {
			return err
		}
		if err := d.enlistNew(r, n); err != nil {
			return err
		}
	}
	for i := range b.RunUpdates {
		if err := d.updateRun(&b.RunUpdates[i]); err != nil {
			return err
		}
	}
	if err := treeOf(d).move(); err != nil {
		return err
	}
	return d.moveLines()
}

func (d *DB) updateRun(r *dag.RunUpdate) error {
	n, err := d.number(r.ID)
	if err != nil {
		return err
	}
	s := d.rowOf(r)
	own := s != d.stmts.updateRun // whether the run's row can contain the history of this transaction
	runState(s.row().int(n).int(int64(r.Shard)).text(r.Was.String()), &r.RunRow).blob(d.claims(&r.RunRow))
	if own {
		e := d.past.Of(r.ID)
		s.int(d.seq).int(int64(e.At)).blob(e.Records).blob(d.hands.Take(r.ID))
	}
	if err := s.one(d.conn); err != nil {
		return err
	}
	if !own {
		if err := d.event(r.ID, n); err != nil {
			return err
		}
	}
	if err := d.line(r.ID, r.Claimed, r.Claim, n); err != nil {
		return err
	}
	if r.Filled {
		if err := d.stmts.fillRun.row().int(n).blob(r.Params).one(d.conn); err != nil {
			return err
		}
	}
	if r.State.Terminal() != r.Was.Terminal() {
		if err := d.enlist(activeList, n, !r.State.Terminal()); err != nil {
			return err
		}
	}
	return d.relist(r.Was, r.State, n)
}

// relist updates the lists of unsuccessful runs.
func (d *DB) relist(was, is dag.RunState, n int64) error {
	if was != is && store.Unsuccessful(was) {
		if err := d.enlist(stateList(was.String()), n, false); err != nil {
			return err
		}
	}
	if was != is && store.Unsuccessful(is) {
		return d.enlist(stateList(is.String()), n, true)
	}
	return nil
}

// rowOf returns the statement for a change of a run. Two histories have columns in the run's row: the begin
// after a wait, and the first end. Each occurs only once in the first generation.
func (d *DB) rowOf(r *dag.RunUpdate) *stmt {
	waits := func(s dag.RunState) bool { return s == dag.RunSubmitted || s == dag.RunWaiting }
	switch {
	case r.Generation != 1 || waits(r.State):
		return d.stmts.updateRun
	case r.State.Terminal():
		return d.stmts.endRun
	case waits(r.Was):
		return d.stmts.beginRun
	}
	return d.stmts.updateRun
}

func (d *DB) enlistNew(r *dag.RunRow, n int64) error {
	if !r.State.Terminal() {
		if err := d.enlist(activeList, n, true); err != nil {
			return err
		}
	} else if store.Unsuccessful(r.State) {
		if err := d.enlist(stateList(r.State.String()), n, true); err != nil {
			return err
		}
	}
	if err := d.line(r.ID, nil, r.Claim, n); err != nil {
		return err
	}
	if err := enlistTags(d, r.Tags(), n, true); err != nil {
		return err
	}
	workflow, user := d.lists.of(r)
	if err := d.enlist(workflow, n, true); err != nil {
		return err
	}
	return d.enlist(user, n, true)
}

// runState binds the columns of a run that change.
func runState(s *stmt, r *dag.RunRow) *stmt {
	return s.text(r.State.String()).text(r.Intent.String()).int(int64(r.Generation)).text(string(r.Cause)).text(r.Message).
		blob(r.Graph).blob(r.Base).blob(r.Final).int(int64(r.SplitAt)).int(int64(r.StartedAt)).int(int64(r.FinishedAt)).
		int(int64(r.Leader)).int(int64(r.LeaderAt))
}

// events writes the history of those runs whose rows do not change in the transaction.
func (d *DB) events(b *store.Batch) error {
	for i := range b.Events {
		id := b.Events[i].Run
		if !d.past.Tells(id) {
			continue // the row is already written
		}
		n, err := d.number(id)
		if err == nil {
			err = d.event(id, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// event writes a row with the history of a run in the transaction, if there are events that are not packed
// into another row.
func (d *DB) event(id dag.RunID, n int64) error {
	e := d.past.Take(id)
	if e == nil {
		return nil
	}
	_, err := d.stmts.insertEvent.row().int(n).int(d.seq).int(int64(e.At)).blob(some(e.Records)).
		blob(d.hands.Take(id)).exec(d.conn)
	return err
}

func (d *DB) attempts(b *store.Batch) error {
	for i := range b.AttemptInserts {
		if d.hands.Own[i] {
			a := &b.AttemptInserts[i]
			if _, err := d.newAttempt(d.stmts.insertAttempt, a, a.Generation, a.Assigned); err != nil {
				return err
			}
		}
	}
	for i := range b.AttemptUpdates {
		a := &b.AttemptUpdates[i]
		switch w := &d.hands.Changes[i]; w.Form {
		case packed.FormPacked:
		case packed.FormFirst:
			if n, err := d.newAttempt(d.stmts.firstAttempt, &a.AttemptRow, w.Generation, w.Assigned); err != nil || n != 1 {
				return cmp.Or(err, fmt.Errorf("attempt %d of task %d of run %s already has a row, but its owner has none in memory: %w", a.Token, a.Task, a.Run, store.ErrFenced))
			}
		default:
			if err := d.changeAttempt(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *DB) changeAttempt(a *dag.AttemptUpdate) error {
	n, err := d.number(a.Run)
	if err != nil {
		return err
	}
	s := d.stmts.updateAttempt.row().int(n).int(int64(a.Task)).int(int64(a.Token)).int(int64(a.Handler)).text(a.Was.String())
	return ended(s, &a.AttemptRow).one(d.conn)
}

// newAttempt writes the first row of an attempt. It returns the number of rows that it has written: 0 or 1.
func (d *DB) newAttempt(s *stmt, a *dag.AttemptRow, generation int32, assigned dag.Micros) (int, error) {
	n, err := d.number(a.Run)
	if err != nil {
		return 0, err
	}
	s.row().int(n).int(int64(a.Task)).int(int64(a.Token)).int(int64(generation)).int(int64(a.Handler)).int(int64(assigned))
	return ended(s, a).exec(d.conn)
}

// ended binds the columns of an attempt that change after its assignment.
func ended(s *stmt, a *dag.AttemptRow) *stmt {
	s.text(a.State.String()).text(string(a.Cause)).text(a.Message)
	if a.Exited {
		s.int(int64(a.ExitCode))
	} else {
		s.null()
	}
	return s.text(a.Signal).blob(a.Outputs).int(int64(a.Started)).int(int64(a.Finished)).
		int(int64(a.RetryAt)).int(a.RetryWait.Microseconds())
}

func (d *DB) workflows(b *store.Batch) error {
	for i := range b.WorkflowInserts {
		w := &b.WorkflowInserts[i]
		s := d.stmts.insertWorkflow.row().int(int64(w.ID)).int(int64(w.Shard)).text(w.Namespace).text(w.Name).text(w.State).
			int(int64(w.Version)).int(int64(w.Latest)).int(w.Revision).int(int64(w.Created)).int(int64(w.Modified)).int(int64(w.MaxRuns)).text(string(w.Tags))
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	for i := range b.WorkflowUpdates {
		w := &b.WorkflowUpdates[i]
		s := d.stmts.updateWorkflow.row().int(int64(w.ID)).text(w.State).int(int64(w.Version)).int(int64(w.Latest)).
			int(w.Revision).int(int64(w.Modified)).int(int64(w.MaxRuns)).text(string(w.Tags))
		if err := s.one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) versions(b *store.Batch) error {
	for i := range b.Versions {
		v := &b.Versions[i]
		s := d.stmts.insertVersion.row().int(int64(v.Workflow)).int(int64(v.Version)).blob(some(v.Source)).blob(some(v.Def)).
			blob(some(v.Graph)).blob(some(v.Digest)).text(v.User).int(int64(v.Created))
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
		for _, f := range v.Files {
			s := d.stmts.insertFile.row().int(int64(v.Workflow)).int(int64(v.Version)).text(f.Name).int(int64(f.Mode)).blob(some(f.Data))
			if _, err := s.exec(d.conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// some returns an empty blob for nil. It is for columns that do not allow NULL.
func some(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (d *DB) requests(b *store.Batch) error {
	for i := range b.Requests {
		r := &b.Requests[i]
		s := d.stmts.insertRequest.row().text(r.Scope).text(r.Key).blob(some(r.Hash)).blob(some(r.Answer)).int(int64(r.Created))
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) messages(b *store.Batch) error {
	for i := range b.Messages {
		m := &b.Messages[i]
		if err := checkShard(m.To); err != nil {
			return fmt.Errorf("message: %w", err)
		}
		s := d.stmts.insertMessage.row().int(int64(m.From)).int(int64(m.To)).blob(some(m.Payload)).int(int64(m.Created))
		if _, err := s.exec(d.conn); err != nil {
			return err
		}
	}
	for _, id := range b.Consumed {
		if err := d.stmts.consumeMessage.row().int(id).one(d.conn); err != nil {
			return err
		}
	}
	return nil
}

// Acquire implements store.Store.
func (d *DB) Acquire(ctx context.Context, owner dag.HandlerID, shards []dag.ShardID) ([]store.Acquired, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("acquire shards: %w: %w", store.ErrUnavailable, err)
	}
	got := make([]store.Acquired, len(shards))
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.transact(func() error {
		for i, id := range shards {
			if err := d.readShard(id, &got[i]); err != nil {
				return err
			}
			if got[i].Takes() == 0 {
				return store.ErrTakes
			}
			if err := d.stmts.acquire.row().int(int64(id)).int(int64(owner)).one(d.conn); err != nil {
				return err
			}
		}
		return nil
	})
	d.handed.Forget()
	if err != nil {
		return nil, fmt.Errorf("acquire shards: %w", err)
	}
	for i := range got {
		got[i].Now = wall()
	}
	return got, nil
}

// readShard reads, inside the transaction, the state of the shard after the transaction.
func (d *DB) readShard(id dag.ShardID, a *store.Acquired) error {
	found := false
	err := sqlitex.Execute(d.conn, d.read["shard"], &sqlitex.ExecOptions{Args: []any{int64(id)}, ResultFunc: func(s *sqlite.Stmt) error {
		found = true
		a.Fence = store.Fence{Shard: id, Epoch: s.ColumnInt64(0) + 1, Seq: s.ColumnInt64(1)}
		a.Previous, a.Watermark = dag.HandlerID(s.ColumnInt64(2)), dag.Micros(s.ColumnInt64(3))
		return nil
	}})
	if err == nil && !found {
		err = fmt.Errorf("shard %d: %w", id, store.ErrNotFound)
	}
	return translate("shard", err)
}

// Register implements store.Store.
func (d *DB) Register(ctx context.Context, id, node string) (store.Handler, error) {
	if _, err := uuid.Parse(id); err != nil {
		return store.Handler{}, fmt.Errorf("handler %q: %w: %w", id, store.ErrRefused, err)
	}
	h := store.Handler{UUID: id, Node: node, Started: wall()}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.transact(func() error {
		_, err := d.stmts.insertHandler.row().text(id).text(node).int(int64(h.Started)).exec(d.conn)
		h.ID = dag.HandlerID(d.conn.LastInsertRowID())
		return err
	})
	return h, err
}
