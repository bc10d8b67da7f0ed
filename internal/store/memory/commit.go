package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// Commit applies a batch as a whole or not at all.
func (s *Store) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	var now dag.Micros
	err := s.write(ctx, Op{Kind: CommitBefore, Batch: b}, CommitAfter, func() error {
		x := tx{s: s, seqs: map[dag.ShardID]int64{}}
		if err := x.apply(b); err != nil {
			x.rollback()
			return fmt.Errorf("commit: %w", err)
		}
		now = s.clock()
		return nil
	})
	if err != nil {
		return 0, err
	}
	return now, nil
}

// tx is a transaction that is being applied. For every change it records how to undo it.
type tx struct {
	s    *Store
	seqs map[dag.ShardID]int64 // the seqs of the fenced shards after the transaction
	undo []func()
}

func (x *tx) rollback() {
	for _, undo := range slices.Backward(x.undo) {
		undo()
	}
}

func (x *tx) onUndo(f func()) { x.undo = append(x.undo, f) }

func missed(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), store.ErrFenced)
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), store.ErrRefused)
}

func (x *tx) apply(b *store.Batch) error {
	if err := x.fences(b); err != nil {
		return err
	}
	return firstError(
		func() error { return each(b.RunInserts, x.insertRun) },
		func() error { return each(b.RunUpdates, x.updateRun) },
		func() error { return each(b.AttemptInserts, x.insertAttempt) },
		func() error { return each(b.AttemptUpdates, x.updateAttempt) },
		func() error { return each(b.Events, x.insertEvent) },
		func() error { return each(b.WorkflowInserts, x.insertWorkflow) },
		func() error { return each(b.WorkflowUpdates, x.updateWorkflow) },
		func() error { return each(b.Versions, x.insertVersion) },
		func() error { return each(b.Requests, x.insertRequest) },
		func() error { return each(b.Messages, x.insertMessage) },
		func() error { return each(b.Consumed, x.consume) },
		func() error { return x.applySchedules(&b.ScheduleChanges) },
		func() error { return x.applyQueues(b) },
		func() error { return each(b.Audit, x.insertAudit) },
		func() error { return each(b.Incidents, x.putIncident) },
		func() error { return each(b.Notices, x.insertNotice) },
		func() error { return each(b.Uses, x.use) },
		func() error { return each(b.Kept, x.keep) },
		func() error { return each(b.Stocks, x.stock) },
	)
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func each[T any](rows []T, f func(*T) error) error {
	for i := range rows {
		if err := f(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// fences checks the fences first: if one of them misses, nothing is written.
func (x *tx) fences(b *store.Batch) error {
	if len(b.Fences) == 0 {
		return guest(b)
	}
	for i, f := range b.Fences {
		if i > 0 && f.Shard <= b.Fences[i-1].Shard {
			return missed("fences of shards %d and %d are not in rising order", b.Fences[i-1].Shard, f.Shard)
		}
		if !hasShard(x.s, f.Shard) {
			return missed("there is no shard %d", f.Shard)
		}
		if sh := x.s.shards[f.Shard]; sh.epoch != f.Epoch || sh.seq != f.Seq {
			return missed("shard %d is at epoch %d seq %d, the batch holds epoch %d seq %d", f.Shard, sh.epoch, sh.seq, f.Epoch, f.Seq)
		}
	}
	for _, f := range b.Fences {
		sh := &x.s.shards[f.Shard]
		sh.seq++
		x.seqs[f.Shard] = sh.seq
		x.onUndo(func() { sh.seq-- })
	}
	return nil
}

// guest checks that a batch without fences contains only rows that any writer may write.
func guest(b *store.Batch) error {
	if b.Rows() > len(b.RunInserts)+len(b.Messages)+len(b.Requests)+len(b.Audit) || b.Watermark != 0 {
		return missed("a batch without fences may only insert submitted runs, messages and requests")
	}
	for i := range b.RunInserts {
		if r := &b.RunInserts[i]; r.State != dag.RunSubmitted {
			return missed("run %s is %s in a batch without fences", r.ID, r.State)
		}
	}
	return nil
}

func (x *tx) insertRun(r *dag.RunRow) error {
	s := x.s
	if err := checkRun(r); err != nil {
		return err
	}
	if !hasShard(s, r.Shard) {
		return refused("run %s: there is no shard %d", r.ID, r.Shard)
	}
	if _, fenced := x.seqs[r.Shard]; !fenced && len(x.seqs) > 0 {
		return missed("run %s is of shard %d, which has no fence", r.ID, r.Shard)
	}
	if s.runs[r.ID] != nil {
		return refused("run %s exists", r.ID)
	}
	key := runKey{r.Workflow, r.Key}
	if other, taken := s.byKey[key]; taken {
		return refused("run %s: run %s already has the key %s", r.ID, other, r.Key)
	}
	row := cloneRun(*r)
	s.runs[r.ID] = &run{row: row}
	indexes := []*ids{&s.all, indexOf(s.byWorkflow, row.Workflow), indexOf(s.byUser, row.User)}
	if row.FinishedAt == 0 {
		indexes = append(indexes, &s.active[row.Shard])
	}
	for _, index := range indexes {
		index.add(row.ID)
	}
	if row.Key != "" {
		s.byKey[key] = row.ID
	}
	x.onUndo(func() {
		for _, index := range indexes {
			index.remove(row.ID)
		}
		if row.Key != "" {
			delete(s.byKey, key)
		}
		delete(s.runs, row.ID)
	})
	return nil
}

func indexOf[K comparable](indexes map[K]*ids, k K) *ids {
	index := indexes[k]
	if index == nil {
		index = &ids{}
		indexes[k] = index
	}
	return index
}

// owned finds a run that the transaction may write.
func (x *tx) owned(id dag.RunID) (*run, error) {
	r := x.s.runs[id]
	if r == nil {
		return nil, missed("there is no run %s", id)
	}
	if _, fenced := x.seqs[r.row.Shard]; !fenced {
		return nil, missed("run %s is of shard %d, which has no fence", id, r.row.Shard)
	}
	return r, nil
}

func (x *tx) updateRun(u *dag.RunUpdate) error {
	if err := checkRun(&u.RunRow); err != nil {
		return err
	}
	r, err := x.owned(u.ID)
	if err != nil {
		return err
	}
	old := r.row
	if old.State != u.Was || old.Shard != u.Shard {
		return missed("run %s is %s on shard %d, not %s on %d", u.ID, old.State, old.Shard, u.Was, u.Shard)
	}
	if c, is := u.Claimed, old.Claim; c.InLine() && (!is.InLine() || is.Line() != c.Line() || is.Level != c.Level || is.Asked != c.Asked) {
		return missed("run %s does not stand in line %s", u.ID, c.Line())
	}
	next := cloneRun(u.RunRow)
	params := next.Params
	if next.Header = old.Header; u.Filled { // the rest of the header is written only once
		next.Params = params
	}
	x.setRun(r, next)
	x.onUndo(func() { x.setRun(r, old) })
	return nil
}

func (x *tx) setRun(r *run, row dag.RunRow) {
	r.row = row
	if row.FinishedAt == 0 {
		x.s.active[row.Shard].add(row.ID)
	} else {
		x.s.active[row.Shard].remove(row.ID)
	}
}

func (x *tx) insertAttempt(a *dag.AttemptRow) error {
	if err := checkAttempt(a); err != nil {
		return err
	}
	r, err := x.owned(a.Run)
	if err != nil {
		return err
	}
	i, exists := slices.BinarySearchFunc(r.attempts, *a, store.ByTask)
	if exists {
		return refused("attempt %d of task %d of run %s exists", a.Token, a.Task, a.Run)
	}
	r.attempts = slices.Insert(r.attempts, i, cloneAttempt(*a))
	x.onUndo(func() { r.attempts = slices.Delete(r.attempts, i, i+1) })
	return nil
}

func (x *tx) updateAttempt(u *dag.AttemptUpdate) error {
	if err := checkAttempt(&u.AttemptRow); err != nil {
		return err
	}
	r, err := x.owned(u.Run)
	if err != nil {
		return err
	}
	i, exists := slices.BinarySearchFunc(r.attempts, u.AttemptRow, store.ByTask)
	if !exists {
		return missed("there is no attempt %d of task %d of run %s", u.Token, u.Task, u.Run)
	}
	old := r.attempts[i]
	if old.Handler != u.Handler || old.State != u.Was {
		return missed("attempt %d of task %d of run %s is %s with handler %d, not %s with %d",
			u.Token, u.Task, u.Run, old.State, old.Handler, u.Was, u.Handler)
	}
	next := cloneAttempt(u.AttemptRow)
	next.Generation, next.Assigned = old.Generation, old.Assigned // written once
	r.attempts[i] = next
	x.onUndo(func() { r.attempts[i] = old })
	return nil
}

func (x *tx) insertEvent(e *dag.EventRow) error {
	r, err := x.owned(e.Run)
	if err != nil {
		return err
	}
	if err := checkSize("event of run "+e.Run.String(), len(e.Records)); err != nil {
		return err
	}
	row := cloneEvent(*e)
	row.Seq = x.seqs[r.row.Shard]
	if n := len(r.events); n > 0 && r.events[n-1].Seq == row.Seq {
		return refused("run %s has two event rows in one transaction", e.Run)
	}
	r.events = append(r.events, row)
	x.onUndo(func() { r.events = r.events[:len(r.events)-1] })
	return nil
}

func (x *tx) insertWorkflow(w *store.Workflow) error {
	if err := checkWorkflow(w); err != nil {
		return err
	}
	if _, exists := x.s.workflows[w.ID]; exists {
		return refused("workflow %d exists", w.ID)
	}
	return x.setWorkflow(*w)
}

func (x *tx) updateWorkflow(w *store.Workflow) error {
	if err := checkWorkflow(w); err != nil {
		return err
	}
	old, exists := x.s.workflows[w.ID]
	if !exists || old.Revision != w.Revision-1 {
		return missed("workflow %d is at revision %d, the batch makes %d", w.ID, old.Revision, w.Revision)
	}
	next := old // shard, name and creation are written only once
	next.State, next.Version, next.Latest = w.State, w.Version, w.Latest
	next.Revision, next.Modified, next.MaxRuns, next.Tags = w.Revision, w.Modified, w.MaxRuns, w.Tags
	return x.setWorkflow(next)
}

// setWorkflow replaces the row with the same id, if there is one. A row keeps its name, unless it is deleted.
func (x *tx) setWorkflow(w store.Workflow) error {
	s, name := x.s, workflowName{w.Namespace, w.Name}
	old, existed := s.workflows[w.ID]
	holder, held := s.names[name]
	if held && holder != w.ID && w.State != store.WorkflowDeleted {
		return refused("the name %s/%s belongs to workflow %d", w.Namespace, w.Name, holder)
	}
	switch {
	case w.State != store.WorkflowDeleted:
		s.names[name] = w.ID
	case holder == w.ID:
		delete(s.names, name)
	}
	s.workflows[w.ID] = w
	x.onUndo(func() {
		delete(s.workflows, w.ID)
		delete(s.names, name)
		if existed {
			s.workflows[w.ID] = old
		}
		if held {
			s.names[name] = holder
		}
	})
	return nil
}

func byVersion(v store.Version, n int32) int { return cmp.Compare(v.Version, n) }

func (x *tx) insertVersion(v *store.Version) error {
	if err := checkVersion(v); err != nil {
		return err
	}
	s := x.s
	i, exists := slices.BinarySearchFunc(s.versions[v.Workflow], v.Version, byVersion)
	if exists {
		return refused("version %d of workflow %d exists", v.Version, v.Workflow)
	}
	row := cloneVersion(*v)
	slices.SortFunc(row.Files, func(a, b store.File) int { return cmp.Compare(a.Name, b.Name) })
	s.versions[row.Workflow] = slices.Insert(s.versions[row.Workflow], i, row)
	x.onUndo(func() { s.versions[row.Workflow] = slices.Delete(s.versions[row.Workflow], i, i+1) })
	return nil
}

func (x *tx) insertRequest(r *store.Request) error {
	if err := checkTexts("request", r.Scope, r.Key); err != nil {
		return err
	}
	if err := checkSize("request "+r.Key, len(r.Scope)+len(r.Key)+len(r.Hash)+len(r.Answer)); err != nil {
		return err
	}
	s, key := x.s, requestKey{r.Scope, r.Key}
	if _, exists := s.requests[key]; exists {
		return refused("request %s in %s exists", r.Key, r.Scope)
	}
	s.requests[key] = cloneRequest(*r)
	x.onUndo(func() { delete(s.requests, key) })
	return nil
}

func (x *tx) insertMessage(m *store.Message) error {
	s := x.s
	if !hasShard(s, m.To) {
		return refused("message to shard %d, which does not exist", m.To)
	}
	if err := checkSize("message", len(m.Payload)); err != nil {
		return err
	}
	row := cloneMessage(*m)
	s.lastID++
	row.ID = s.lastID
	s.messages = append(s.messages, row)
	x.onUndo(func() {
		s.lastID--
		s.messages = s.messages[:len(s.messages)-1]
	})
	return nil
}

func (x *tx) consume(id *int64) error {
	s := x.s
	i, exists := slices.BinarySearchFunc(s.messages, *id, func(m store.Message, id int64) int { return cmp.Compare(m.ID, id) })
	if !exists {
		return missed("there is no message %d", *id)
	}
	m := s.messages[i]
	if _, fenced := x.seqs[m.To]; !fenced {
		return missed("message %d is for shard %d, which has no fence", *id, m.To)
	}
	s.messages = slices.Delete(s.messages, i, i+1)
	x.onUndo(func() { s.messages = slices.Insert(s.messages, i, m) })
	return nil
}
