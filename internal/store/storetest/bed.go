package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// bed is an open store, together with an owner that holds all its shards.
type bed struct {
	*testing.T
	e      Engine
	s      store.Store
	ctx    context.Context
	owner  dag.HandlerID
	fences []store.Fence
	count  uint32 // number of run ids made so far
	sent   int    // number of batches sent so far
}

func newBed(t *testing.T, e Engine) *bed {
	b := &bed{T: t, e: e, s: e.Open(t), ctx: context.Background()}
	t.Cleanup(func() { b.s.Close() })
	h, err := b.s.Register(b.ctx, uuid(1), "node-1")
	b.ok(err)
	b.owner = h.ID
	b.take()
	return b
}

// take acquires all shards and returns what the store returned.
func (b *bed) take() []store.Acquired {
	b.Helper()
	info, err := b.s.Info(b.ctx)
	b.ok(err)
	var all []dag.ShardID
	for i := range info.Shards {
		all = append(all, dag.ShardID(i))
	}
	got, err := b.s.Acquire(b.ctx, b.owner, all)
	b.ok(err)
	b.fences = b.fences[:0]
	for _, a := range got {
		b.fences = append(b.fences, a.Fence)
	}
	return got
}

func (b *bed) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) is(err error, kinds ...error) {
	b.Helper()
	for _, k := range kinds {
		if errors.Is(err, k) {
			return
		}
	}
	b.Fatalf("error %v, want %v", err, kinds)
}

// batch returns an empty batch with the fences of all shards.
func (b *bed) batch() *store.Batch { return &store.Batch{Fences: slices.Clone(b.fences)} }

// commit commits x. If that succeeds, it advances the fences of x.
func (b *bed) commit(x *store.Batch) error {
	now, err := b.send(x)
	if err != nil {
		return err
	}
	if now <= 0 {
		return fmt.Errorf("commit returned the clock %d", now)
	}
	for _, f := range x.Fences {
		for i := range b.fences {
			if b.fences[i].Shard == f.Shard {
				b.fences[i].Seq++
			}
		}
	}
	return nil
}

// send commits a batch. It stages every second batch first.
func (b *bed) send(x *store.Batch) (dag.Micros, error) {
	if b.sent++; b.sent%2 == 0 {
		b.stage(x)
	}
	return b.s.Commit(b.ctx, x)
}

// stage stages a batch, if the engine supports that.
func (b *bed) stage(x *store.Batch) {
	if s, can := b.s.(store.Stager); can {
		s.Stage(x)
	}
}

// put commits an empty batch after fill has added to it.
func (b *bed) put(fill func(x *store.Batch)) {
	b.Helper()
	x := b.batch()
	fill(x)
	b.ok(b.commit(x))
}

// fails commits x. It requires an error of one of the given kinds, and that nothing of x was written.
func (b *bed) fails(x *store.Batch, kinds ...error) {
	b.Helper()
	before := b.contents()
	_, err := b.send(x)
	b.is(err, kinds...)
	b.same(b.contents(), before, "after a failed commit")
	if err := b.commit(b.batch()); err != nil {
		b.Fatalf("a failed commit moved the fence: %v", err)
	}
}

// same compares two values. Empty slices are equal to nil.
func (b *bed) same(got, want any, what string) {
	b.Helper()
	if g, w := tidy(got), tidy(want); !reflect.DeepEqual(g, w) {
		b.Fatalf("%s:\n got %.4000s\nwant %.4000s", what, fmt.Sprintf("%+v", g), fmt.Sprintf("%+v", w))
	}
}

// tidy returns a deep copy of v in which empty slices are nil.
func tidy[T any](v T) T { return tidied(reflect.ValueOf(&v).Elem()).Interface().(T) }

func tidied(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if v.Len() == 0 {
			return reflect.Zero(v.Type())
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return reflect.ValueOf(bytes.Clone(v.Bytes())).Convert(v.Type())
		}
		out := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			out.Index(i).Set(tidied(v.Index(i)))
		}
		return out
	case reflect.Pointer:
		if !v.IsNil() {
			out := reflect.New(v.Type().Elem())
			out.Elem().Set(tidied(v.Elem()))
			return out
		}
	case reflect.Interface:
		if !v.IsNil() {
			return tidied(v.Elem())
		}
	case reflect.Struct:
		out := reflect.New(v.Type()).Elem()
		for i := range v.NumField() {
			out.Field(i).Set(tidied(v.Field(i)))
		}
		return out
	}
	return v
}

// contents holds everything that a store can return.
type contents struct {
	Runs      []history
	Workflows []store.Workflow
	Listed    []store.Workflow
	Versions  []store.Version
	Files     []store.File
	Requests  []store.Request
	Messages  []store.Message
	Schedules scheduled
}

type history struct {
	store.RunRecord
	Events []dag.EventRow
}

// probed bounds the ids and keys that contents reads one after the other.
const probed = 4

func (b *bed) contents() contents {
	b.Helper()
	var c contents
	b.ok(b.s.Scan(b.ctx, func(r store.RunRecord, events []dag.EventRow) error {
		c.Runs = append(c.Runs, history{r, events})
		return nil
	}))
	var err error
	c.Listed, err = b.s.Workflows(b.ctx, store.WorkflowQuery{Limit: 1000})
	b.ok(err)
	for id := dag.WorkflowID(1); id <= probed; id++ {
		if w, err := b.s.WorkflowByID(b.ctx, id); b.found(err) {
			c.Workflows = append(c.Workflows, w)
		}
		for n := int32(1); n <= probed; n++ {
			if v, err := b.s.Version(b.ctx, id, n); b.found(err) {
				c.Versions = append(c.Versions, v)
			}
			files, err := b.s.Files(b.ctx, store.FileQuery{Workflow: id, Version: n})
			b.ok(err)
			c.Files = append(c.Files, files...)
		}
	}
	for n := range probed {
		if r, err := b.s.Request(b.ctx, "scope", key(n)); b.found(err) {
			c.Requests = append(c.Requests, r)
		}
	}
	for _, f := range b.fences {
		waiting, err := b.s.Messages(b.ctx, f.Shard, 1000)
		b.ok(err)
		c.Messages = append(c.Messages, waiting...)
	}
	c.Schedules = b.scheduled()
	return c
}

func (b *bed) found(err error) bool {
	b.Helper()
	if err != nil {
		b.is(err, store.ErrNotFound)
	}
	return err == nil
}

func key(n int) string { return fmt.Sprintf("key-%d", n) }

func uuid(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// epoch is the time of the first run in milliseconds.
const epoch = 1_750_000_000_000

// runID returns a UUIDv7 for the nth millisecond after epoch.
func runID(n uint32) dag.RunID {
	var id dag.RunID
	binary.BigEndian.PutUint64(id[:], (epoch+uint64(n))<<16)
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], n)
	return id
}

// run returns a new row in the given state, of workflow 1 on shard 0. It is younger than all earlier rows.
func (b *bed) run(state dag.RunState) dag.RunRow {
	b.count++
	r := dag.RunRow{Header: dag.Header{
		ID: runID(b.count), Workflow: 1, Version: 1, Priority: dag.Medium, Origin: dag.OriginAPI,
		User: "ada", Created: dag.Micros(epoch+int64(b.count)) * 1000,
	}, State: state, Generation: 1}
	if state.Terminal() {
		r.FinishedAt = r.Created + 1
	}
	return r
}

// add commits new rows of runs.
func (b *bed) add(rows ...dag.RunRow) {
	b.Helper()
	b.put(func(x *store.Batch) { x.RunInserts = rows })
}

func (b *bed) attempt(run dag.RunID, task dag.TaskID, token dag.Token) dag.AttemptRow {
	return dag.AttemptRow{Run: run, Task: task, Token: token, Generation: 1, Handler: b.owner,
		State: dag.AttemptAssigned, Assigned: 1000 + dag.Micros(token)}
}

func event(run dag.RunID, at dag.Micros) dag.EventRow {
	return dag.EventRow{Run: run, At: at, Records: dag.PackRecords([]dag.Record{{Kind: dag.RecStarted, Task: 3, Token: 1}})}
}

func workflow(id dag.WorkflowID, name string) store.Workflow {
	return store.Workflow{ID: id, Namespace: "default", Name: name, State: store.WorkflowActive,
		Version: 1, Latest: 1, Revision: 1, Created: 10, Modified: 10}
}

func version(w dag.WorkflowID, n int32) store.Version {
	return store.Version{Workflow: w, Version: n, Source: []byte("tasks:"), Def: []byte("{}"), Graph: []byte{1, 2},
		Digest: []byte{byte(n)}, User: "ada", Created: 10, Files: []store.File{{Name: "a/b.sh", Mode: 0o755, Data: []byte("true")}}}
}

func request(n int) store.Request {
	return store.Request{Scope: "scope", Key: key(n), Hash: []byte{1}, Answer: []byte("{}"), Created: 11}
}

// world is a store with one row of every kind. Tests make batches that change all of them.
type world struct {
	run     dag.RunRow     // in state running
	attempt dag.AttemptRow // in state assigned
	flow    store.Workflow
	message store.Message
	planned
}

func (b *bed) world() world {
	b.Helper()
	w := world{run: b.run(dag.RunRunning), flow: workflow(1, "first")}
	w.run.Key = "taken"
	w.attempt = b.attempt(w.run.ID, 0, 1)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{w.run}
		x.AttemptInserts = []dag.AttemptRow{w.attempt}
		x.Events = []dag.EventRow{event(w.run.ID, 5)}
		x.WorkflowInserts = []store.Workflow{w.flow}
		x.Versions = []store.Version{version(1, 1)}
		x.Requests = []store.Request{request(0)}
		x.Messages = []store.Message{{Payload: []byte("hello"), Created: 5}}
		w.planned = b.plan(x)
	})
	waiting, err := b.s.Messages(b.ctx, 0, 10)
	b.ok(err)
	w.message = waiting[0]
	return w
}

// full returns a batch with a valid change of every kind. A test then adds an invalid one.
func (b *bed) full(w *world) *store.Batch {
	x := b.batch()
	next := b.run(dag.RunRunning)
	x.RunInserts = []dag.RunRow{next}
	update := dag.RunUpdate{RunRow: w.run, Was: w.run.State}
	update.Message = "changed"
	x.RunUpdates = []dag.RunUpdate{update}
	x.AttemptInserts = []dag.AttemptRow{b.attempt(next.ID, 0, 1), b.attempt(w.run.ID, 1, 1)}
	x.AttemptUpdates = []dag.AttemptUpdate{ended(w.attempt)}
	x.Events = []dag.EventRow{event(next.ID, 6), event(w.run.ID, 6)}
	x.WorkflowInserts = []store.Workflow{workflow(2, "second")}
	x.WorkflowUpdates = []store.Workflow{revised(w.flow)}
	x.Versions = []store.Version{version(1, 2)}
	x.Requests = []store.Request{request(1)}
	x.Messages = []store.Message{{Payload: []byte("bye"), Created: 6}}
	x.Consumed = []int64{w.message.ID}
	b.replan(x, &w.planned)
	return x
}

func ended(a dag.AttemptRow) dag.AttemptUpdate {
	u := dag.AttemptUpdate{AttemptRow: a, Was: a.State}
	u.State, u.Finished = dag.AttemptSucceeded, 2000
	return u
}

func revised(w store.Workflow) store.Workflow {
	w.State, w.Version, w.Latest, w.Modified = store.WorkflowPaused, 2, 2, 20
	w.Revision++
	return w
}
