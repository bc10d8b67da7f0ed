package postgres

import (
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// check returns ErrRefused for faults that can be found without the database.
func (d *DB) check(b *store.Batch) error {
	for i := 1; i < len(b.Fences); i++ {
		if b.Fences[i-1].Shard >= b.Fences[i].Shard {
			return fmt.Errorf("commit: fences out of order: %w", store.ErrFenced)
		}
	}
	if len(b.Fences) == 0 {
		if err := onlyInserts(b); err != nil {
			return err
		}
	}
	for i := range b.RunInserts {
		if r := &b.RunInserts[i]; !d.hasShard(r.Shard) {
			return fmt.Errorf("commit: run %s: there is no shard %d: %w", r.ID, r.Shard, store.ErrRefused)
		}
	}
	for i := range b.Messages {
		if m := &b.Messages[i]; !d.hasShard(m.To) {
			return fmt.Errorf("commit: message: there is no shard %d: %w", m.To, store.ErrRefused)
		}
	}
	if err := d.checkSchedules(&b.ScheduleChanges); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := b.QueueChanges.Check(b.Fences); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// onlyInserts returns ErrRefused for writes that only an owner may make.
func onlyInserts(b *store.Batch) error {
	bad := b.Watermark != 0 || b.Rows() > len(b.RunInserts)+len(b.Messages)+len(b.Requests)+len(b.Audit)
	for i := range b.RunInserts {
		bad = bad || b.RunInserts[i].State != dag.RunSubmitted
	}
	if bad {
		return fmt.Errorf("commit: only the owner of a shard writes more than submitted runs, requests, messages and audit rows: %w", store.ErrFenced)
	}
	return nil
}

// write sends the batch in the order of its fields. If the transaction is written ahead, write leaves out the
// incidents and notices, because the transaction before may change the same ones.
func (x *tx) write() {
	b := x.batch
	alerts := x.alertRows
	if x.ahead {
		alerts = func(*store.Batch) {}
	}
	for _, step := range []func(*store.Batch){x.insertRuns, x.updateRuns, x.changeWaves, x.events, x.insertAttempts, x.updateAttempts,
		x.insertWorkflows, x.updateWorkflows, x.versions, x.requests, x.messages, x.schedules, x.queues, x.audit, alerts, x.uses} {
		if x.fail != nil {
			return
		}
		step(b)
	}
}

func (x *tx) fence() {
	b := x.batch
	if len(b.Fences) == 0 {
		return
	}
	r := x.conn.room("fence")
	x.owned = x.owned[:0]
	for _, f := range b.Fences {
		r.row().int4(int32(f.Shard)).int8(f.Epoch).int8(f.Seq)
		x.owned = append(x.owned, int32(f.Shard))
	}
	x.push(r, args{}.int8(int64(b.Watermark))...)
}

// seq returns the number of this transaction in a shard. fenced is false if this writer does not own the
// shard.
func (x *tx) seq(shard dag.ShardID) (seq int64, fenced bool) {
	for i := range x.batch.Fences {
		if f := &x.batch.Fences[i]; f.Shard == shard {
			return f.Seq + 1, true
		}
	}
	return 0, false
}

func (x *tx) insertRuns(b *store.Batch) {
	rows, list, wait := x.conn.room("insertRun"), x.conn.room("enlist"), x.conn.room("await")
	line, states, tags := x.conn.room("putInLine"), x.conn.room("listState"), x.conn.room("listTag")
	for i := range b.RunInserts {
		r := &b.RunInserts[i]
		seq, fenced := x.seq(r.Shard)
		if !fenced && len(b.Fences) > 0 {
			x.fail = fmt.Errorf("run %s is of shard %d, which has no fence: %w", r.ID, r.Shard, store.ErrFenced)
			return
		}
		e, fire := x.past.Of(r.ID), x.fireOf(r)
		rows.row().id(&r.ID).int4(int32(r.Shard)).int8(int64(r.Workflow)).int4(r.Version).
			text(r.Priority.String()).text(string(r.Origin)).text(r.User).textOrNull(r.Key).blob(r.KeyHash).blob(r.Params).
			blob(fire.Pack()).int8(int64(r.Created)).int8(seq).int8(int64(e.At)).blob(e.Records)
		runState(rows, r)
		rows.blob(x.claims(&b.RunInserts[i])).blob(x.hands.Take(r.ID))
		if r.Claim.InLine() {
			inLine(line, r)
		}
		if r.FinishedAt == 0 && !x.waves.rides(r) {
			list.row().id(&r.ID).int4(int32(r.Shard))
		}
		if r.State == dag.RunSubmitted {
			wait.row().id(&r.ID).int4(int32(r.Shard))
		}
		if store.Unsuccessful(r.State) {
			states.row().id(&r.ID).text(r.State.String())
		}
		if fire != nil {
			for tag := range fire.Tags.Lines() {
				tags.row().id(&r.ID).blob([]byte(tag))
			}
		}
		x.full(rows)
		x.full(list)
		x.full(wait)
		x.full(line)
	}
	x.pushAll(rows, list, wait, line, states, tags)
}

// claims packs the claims of a run and, if all programs know RunRow.Kept, its value.
func (x *tx) claims(r *dag.RunRow) []byte {
	packed := dag.PackClaims(r.Claim, r.Shares)
	if !x.keeps {
		return packed
	}
	return dag.PackKept(r.Kept, packed)
}

// fireOf returns the origin of a new run. It leaves out the tags if not all programs know tags yet.
func (x *tx) fireOf(r *dag.RunRow) *dag.Fire {
	if x.tags || r.Tags() == "" {
		return r.Fire
	}
	f := *r.Fire
	f.Tags = ""
	return &f
}

func (x *tx) pushAll(all ...*rows) {
	for _, r := range all {
		x.push(r)
	}
}

// inLine appends the position of a run in its line.
func inLine(rows *rows, r *dag.RunRow) {
	kept := int32(0)
	if r.Claim.Kept {
		kept = 1
	}
	rows.row().id(&r.ID).text(r.Claim.Line()).int4(int32(r.Claim.Level)).int8(int64(r.Claim.Asked)).int4(kept)
}

// runState appends the columns of a run that can change.
func runState(rows *rows, r *dag.RunRow) {
	rows.text(r.State.String()).text(r.Intent.String()).int4(r.Generation).text(string(r.Cause)).text(r.Message).
		blob(r.Graph).blob(r.Base).blob(r.Final).int8(int64(r.SplitAt)).int8(int64(r.StartedAt)).int8(int64(r.FinishedAt)).
		int8(int64(r.Leader)).int8(int64(r.LeaderAt))
}

func (x *tx) updateRuns(b *store.Batch) {
	rows, list, struck := x.conn.room("updateRun"), x.conn.room("relist"), x.conn.room("strike")
	wait, met, fill := x.conn.room("await"), x.conn.room("met"), x.conn.room("fillRun")
	left, line := x.conn.room("leaveLine"), x.conn.room("putInLine")
	unlist, states := x.conn.room("unlistState"), x.conn.room("listState")
	var seen packed.RunIndex
	seen.Reset(len(b.RunUpdates))
	for i := range b.RunUpdates {
		r := &b.RunUpdates[i]
		seq, fenced := x.seq(r.Shard)
		if !fenced {
			x.fail = fmt.Errorf("run %s is of shard %d, which has no fence: %w", r.ID, r.Shard, store.ErrFenced)
			return
		}
		if _, added := seen.Add(r.ID); !added { // a statement may change a row only once
			x.pushAll(rows, list, struck, wait, met, left, line, fill, unlist, states)
			seen.Reset(len(b.RunUpdates) - i)
			seen.Add(r.ID)
		}
		switch {
		case r.FinishedAt != 0:
			if !x.waves.leaves(i) {
				struck.row().id(&r.ID).int4(int32(r.Shard))
			}
		case r.Was.Terminal():
			list.row().id(&r.ID).int4(int32(r.Shard))
		}
		if r.Filled {
			fill.row().id(&r.ID).blob(r.Params)
		}
		switch submitted := r.State == dag.RunSubmitted; {
		case submitted && r.Was != dag.RunSubmitted:
			wait.row().id(&r.ID).int4(int32(r.Shard))
		case !submitted && r.Was == dag.RunSubmitted:
			met.row().id(&r.ID).int4(int32(r.Shard))
		}
		if r.State != r.Was && store.Unsuccessful(r.Was) {
			unlist.row().id(&r.ID).text(r.Was.String())
		}
		if r.State != r.Was && store.Unsuccessful(r.State) {
			states.row().id(&r.ID).text(r.State.String())
		}
		rows.row().id(&r.ID).int4(int32(r.Shard)).text(r.Was.String())
		runState(rows, &r.RunRow)
		var ends []byte
		if first := r.State.Terminal() && r.Generation == 1; first {
			e := x.past.Of(r.ID)
			ends = x.hands.Take(r.ID)
			rows.int8(seq).int8(int64(e.At)).blob(e.Records)
		} else {
			rows.int8OrNull(0, false).int8OrNull(0, false).blob(nil)
		}
		rows.blob(x.claims(&r.RunRow)).blob(ends)
		if r.Claimed.InLine() {
			left.row().id(&r.ID)
		}
		if r.Claim.InLine() {
			inLine(line, &r.RunRow)
		}
		x.full(rows)
	}
	x.pushAll(rows, list, struck, wait, met, left, line, fill, unlist, states)
}

func (x *tx) insertAttempts(b *store.Batch) {
	rows := x.conn.room("insertAttempt")
	for i := range b.AttemptInserts {
		if x.hands.Own[i] {
			newAttempt(rows, &b.AttemptInserts[i])
			x.full(rows)
		}
	}
	x.push(rows)
}

// newAttempt appends the row of a new attempt.
func newAttempt(rows *rows, a *dag.AttemptRow) {
	rows.row().id(&a.Run).int4(int32(a.Task)).int4(int32(a.Token)).int4(a.Generation).int8(int64(a.Handler)).int8(int64(a.Assigned))
	attemptState(rows, a)
}

// attemptState appends the columns of an attempt that change after its assignment.
func attemptState(rows *rows, a *dag.AttemptRow) {
	rows.text(a.State.String()).text(string(a.Cause)).text(a.Message).int4OrNull(a.ExitCode, a.Exited).text(a.Signal).
		blob(a.Outputs).int8(int64(a.Started)).int8(int64(a.Finished)).int8(int64(a.RetryAt)).int8(a.RetryWait.Microseconds())
}

func (x *tx) updateAttempts(b *store.Batch) {
	type key struct {
		run   dag.RunID
		task  dag.TaskID
		token dag.Token
	}
	first := x.conn.room("firstAttempt")
	for i := range b.AttemptUpdates { // the batch may contain further updates of the same attempt
		if w := &x.hands.Changes[i]; w.Form == packed.FormFirst {
			a := b.AttemptUpdates[i].AttemptRow
			a.Generation, a.Assigned = w.Generation, w.Assigned
			newAttempt(first, &a)
			x.full(first)
		}
	}
	x.push(first)
	rows := x.conn.room("updateAttempt")
	seen := map[key]bool{}
	for i := range b.AttemptUpdates {
		if x.hands.Changes[i].Form != packed.FormUpdate {
			continue
		}
		a := &b.AttemptUpdates[i]
		k := key{a.Run, a.Task, a.Token}
		if seen[k] { // a statement may change a row only once
			x.push(rows)
			clear(seen)
		}
		seen[k] = true
		rows.row().id(&a.Run).int4(int32(a.Task)).int4(int32(a.Token)).int8(int64(a.Handler)).text(a.Was.String())
		attemptState(rows, &a.AttemptRow)
		x.full(rows)
	}
	x.push(rows)
}

// events writes the history of runs that was not packed into the run's row.
func (x *tx) events(b *store.Batch) {
	rows, by := x.conn.room("insertEvent"), args{}.shards(x.owned)
	if x.ahead {
		seqs := make([]int64, len(b.Fences)) // seq of each fence in x.owned
		for i := range b.Fences {
			seqs[i] = b.Fences[i].Seq + 1
		}
		rows, by = x.conn.room("insertEventAhead"), by.array(int8s(seqs))
	}
	for i := range b.Events {
		e := &b.Events[i]
		if !x.past.Tells(e.Run) {
			continue
		}
		rows.row().id(&e.Run).int8(int64(e.At)).some(e.Records).blob(x.hands.Take(e.Run))
		x.full(rows, by...)
	}
	x.push(rows, by...)
}

func (x *tx) insertWorkflows(b *store.Batch) {
	for i := range b.WorkflowInserts {
		w := &b.WorkflowInserts[i]
		x.one(x.conn.room("insertWorkflow").row().int8(int64(w.ID)).int4(int32(w.Shard)).text(w.Namespace).text(w.Name).text(w.State).
			int4(w.Version).int4(w.Latest).int4(w.MaxRuns).int8(w.Revision).int8(int64(w.Created)).int8(int64(w.Modified)).text(string(w.Tags)))
	}
}

func (x *tx) updateWorkflows(b *store.Batch) {
	for i := range b.WorkflowUpdates {
		w := &b.WorkflowUpdates[i]
		x.one(x.conn.room("updateWorkflow").row().int8(int64(w.ID)).text(w.State).int4(w.Version).int4(w.Latest).int4(w.MaxRuns).
			int8(w.Revision).int8(int64(w.Modified)).text(string(w.Tags)))
	}
}

// one sends a statement for one row.
func (x *tx) one(r *rows) {
	if x.fail == nil {
		x.fail = r.fail
	}
	if x.fail == nil {
		x.send(r.name, r.values())
	}
	r.reset()
}

func (x *tx) versions(b *store.Batch) {
	for i := range b.Versions {
		v := &b.Versions[i]
		x.one(x.conn.room("insertVersion").row().int8(int64(v.Workflow)).int4(v.Version).some(v.Source).some(v.Def).
			some(v.Graph).some(v.Digest).text(v.User).int8(int64(v.Created)))
		rows := x.conn.room("insertFile")
		for _, f := range v.Files {
			rows.row().text(f.Name).int8(int64(v.Workflow)).int4(v.Version).int8(int64(f.Mode)).some(f.Data)
			x.full(rows)
		}
		x.push(rows)
	}
}

func (x *tx) requests(b *store.Batch) {
	rows := x.conn.room("insertRequest")
	for i := range b.Requests {
		r := &b.Requests[i]
		rows.row().text(r.Scope).text(r.Key).some(r.Hash).some(r.Answer).int8(int64(r.Created))
		x.full(rows)
	}
	x.push(rows)
}

func (x *tx) messages(b *store.Batch) {
	rows := x.conn.room("insertMessage")
	for i := range b.Messages {
		m := &b.Messages[i]
		rows.row().int4(int32(i)).int4(int32(m.From)).int4(int32(m.To)).some(m.Payload).int8(int64(m.Created))
		x.full(rows)
	}
	x.push(rows)
	if len(b.Consumed) > 0 {
		x.send("consumeMessages", args{}.array(int8s(b.Consumed)).shards(x.owned))
	}
}
