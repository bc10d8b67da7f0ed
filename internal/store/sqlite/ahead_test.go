package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// owner holds the shard and makes batches, each of which starts runs and ends the runs of the previous batch.
type owner struct {
	t     *testing.T
	d     *DB
	id    dag.HandlerID
	fence store.Fence
	made  uint64 // the number of runs made so far
}

func newOwner(t *testing.T, d *DB) *owner {
	t.Helper()
	h, err := d.Register(t.Context(), uuid.NewString(), "node")
	if err != nil {
		t.Fatal(err)
	}
	o := &owner{t: t, d: d, id: h.ID}
	o.take()
	return o
}

func (o *owner) take() {
	o.t.Helper()
	got, err := o.d.Acquire(o.t.Context(), o.id, []dag.ShardID{theShard})
	if err != nil {
		o.t.Fatal(err)
	}
	o.fence = got[0].Fence
}

// batch returns a transaction with the given distance after the committed one.
func (o *owner) batch(after int64, starts int, ends []dag.RunRow) *store.Batch {
	b := &store.Batch{Fences: []store.Fence{o.fence}}
	b.Fences[0].Seq += after
	for range starts {
		o.made++
		r := dag.RunRow{Header: dag.Header{Workflow: 1, Version: 1, Origin: dag.OriginAPI, User: "ada", Created: dag.Micros(o.made)}, State: dag.RunRunning, Generation: 1}
		r.ID[6], r.ID[8] = 0x70, 0x80
		binary.BigEndian.PutUint32(r.ID[12:], uint32(o.made))
		b.RunInserts = append(b.RunInserts, r)
		b.AttemptInserts = append(b.AttemptInserts, o.attempt(r.ID))
		b.Events = append(b.Events, o.event(r.ID))
	}
	for _, r := range ends {
		u := dag.RunUpdate{RunRow: r, Was: r.State}
		u.State, u.FinishedAt = dag.RunSucceeded, 5000
		b.RunUpdates = append(b.RunUpdates, u)
		a := dag.AttemptUpdate{AttemptRow: o.attempt(r.ID), Was: dag.AttemptAssigned, Plain: true}
		a.State, a.Exited, a.Started, a.Finished = dag.AttemptSucceeded, true, 1500, 2000
		b.AttemptUpdates = append(b.AttemptUpdates, a)
		b.Events = append(b.Events, o.event(r.ID))
	}
	return b
}

func (o *owner) attempt(run dag.RunID) dag.AttemptRow {
	return dag.AttemptRow{Run: run, Token: 1, Generation: 1, Handler: o.id, State: dag.AttemptAssigned, Assigned: 1000}
}

func (o *owner) event(run dag.RunID) dag.EventRow {
	return dag.EventRow{Run: run, At: 7, Records: dag.PackRecords([]dag.Record{{Kind: dag.RecStarted, Token: 1}})}
}

// commit commits, and moves the fence.
func (o *owner) commit(b *store.Batch) {
	o.t.Helper()
	if _, err := o.d.Commit(o.t.Context(), b); err != nil {
		o.t.Fatal(err)
	}
	o.fence.Seq++
}

// stage stages a batch, and waits until it is written ahead.
func (o *owner) stage(b *store.Batch) {
	o.t.Helper()
	o.d.Stage(b)
	o.until("it is written ahead", func() bool { return o.ahead(b) })
}

func (o *owner) ahead(b *store.Batch) bool {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	return o.d.ahead.is(b)
}

func (o *owner) until(what string, is func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(deadline) {
			o.t.Fatalf("not so after 30 s: %s", what)
		}
	}
}

// runs counts the runs of the database by state. Each run must have the rows of its state.
func (o *owner) runs() map[dag.RunState]int {
	o.t.Helper()
	all := map[dag.RunState]int{}
	err := o.d.Scan(o.t.Context(), func(r store.RunRecord, events []dag.EventRow) error {
		all[r.Run.State]++
		attempt, history := dag.AttemptAssigned, 1
		if r.Run.State == dag.RunSucceeded {
			attempt, history = dag.AttemptSucceeded, 2
		}
		if r.Bad != nil || len(r.Attempts) != 1 || r.Attempts[0].State != attempt || len(events) != history {
			o.t.Errorf("run %s is %s: %v, attempts %v, %d rows of history", r.Run.ID, r.Run.State, r.Bad, r.Attempts, len(events))
		}
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	if bad, err := o.d.Check(o.t.Context()); err != nil || bad != nil {
		o.t.Errorf("check: %q, %v", bad, err)
	}
	return all
}

func (o *owner) are(running, succeeded int) {
	o.t.Helper()
	is := o.runs()
	if is[dag.RunRunning] != running || is[dag.RunSucceeded] != succeeded {
		o.t.Errorf("%d runs are running and %d succeeded, want %d and %d", is[dag.RunRunning], is[dag.RunSucceeded], running, succeeded)
	}
}

// slow blocks the disk until it is released. Before the block, the synced content is copied to a file.
func slow(t *testing.T, d *DB, path, to string) (reached chan struct{}, let func()) {
	reached, gate := make(chan struct{}), make(chan struct{})
	first := true
	d.syncFile = func(f *os.File) error {
		if first {
			first = false
			copyFile(t, path, to)
			copyFile(t, path+"-wal", to+"-wal")
			close(reached)
			<-gate
		}
		return syncData(f)
	}
	return reached, func() { close(gate) }
}

func copyFile(t *testing.T, from, to string) {
	r, err := os.Open(from)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	w, err := os.Create(to)
	if err == nil {
		_, err = io.Copy(w, r)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestCommitWaitsForTheDisk: a commit returns when it is on the disk, and a reader of its rows returns then,
// too. Meanwhile the next transaction is executed, and no reader sees it.
func TestCommitWaitsForTheDisk(t *testing.T) {
	d, path := openTemp(t)
	o := newOwner(t, d)
	durable := filepath.Join(t.TempDir(), "skein.db")
	reached, let := slow(t, d, path, durable)
	var synced atomic.Bool
	first := o.batch(0, 2, nil)
	second := o.batch(1, 3, first.RunInserts)
	id := first.RunInserts[0].ID
	over := make(chan string, 2)
	late := func(what string, err error) {
		if err != nil || !synced.Load() {
			what += " has returned before it is on the disk, or failed"
		}
		over <- what
	}
	go func() {
		_, err := d.Commit(t.Context(), first)
		late("commit", err)
	}()
	<-reached
	go func() {
		r, err := d.Run(t.Context(), id)
		if err == nil && r.State != dag.RunRunning {
			err = errors.New("it is " + r.State.String())
		}
		late("read", err)
	}()
	o.stage(second)
	// The queries of the owner while it dispatches need not wait.
	if _, err := d.Attempts(t.Context(), store.AttemptQuery{Run: id, One: true, Sparing: true}); err != nil {
		t.Error(err)
	}
	o.until("the reader waits", func() bool {
		stacks := make([]byte, 1<<20)
		return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "(*syncs).wait")
	})
	synced.Store(true)
	let()
	for range 2 {
		if what := <-over; what != "commit" && what != "read" {
			t.Error(what)
		}
	}
	o.fence.Seq++
	o.are(2, 0)
	if !o.ahead(second) {
		t.Error("it is not written ahead any more")
	}
	o.commit(second)
	o.are(3, 2)
	// The log as it was when it was synced has the commit: it is not synced too early.
	d, err := Open(durable)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	(&owner{t: t, d: d}).are(2, 0)
}

// TestOthersComeBeforeWhatIsAhead: another writer rolls back the transaction that is written ahead, which is
// then written again.
func TestOthersComeBeforeWhatIsAhead(t *testing.T) {
	d, _ := openTemp(t)
	o := newOwner(t, d)
	first := o.batch(0, 2, nil)
	o.commit(first)
	second := o.batch(0, 2, first.RunInserts)
	o.stage(second)
	h, err := d.Register(t.Context(), uuid.NewString(), "other")
	if err != nil {
		t.Fatal(err)
	}
	if o.ahead(second) {
		t.Error("it is still written ahead")
	}
	o.commit(second)
	o.are(2, 2)
	third := o.batch(0, 1, second.RunInserts)
	o.stage(third)
	if _, err := d.Acquire(t.Context(), h.ID, []dag.ShardID{theShard}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit(t.Context(), third); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the shard is another one's: %v", err)
	}
	o.are(2, 2)
}

// TestWhatIsStagedChanges: if a batch changes after it was staged, its content at the commit is written.
func TestWhatIsStagedChanges(t *testing.T) {
	d, _ := openTemp(t)
	o := newOwner(t, d)
	first := o.batch(0, 1, nil)
	o.stage(first)
	more := o.batch(0, 1, nil)
	first.RunInserts, first.AttemptInserts = append(first.RunInserts, more.RunInserts...), append(first.AttemptInserts, more.AttemptInserts...)
	first.Events = append(first.Events, more.Events...)
	o.commit(first)
	o.are(2, 0)
	other := o.batch(0, 5, nil)
	o.stage(other)
	d.Unstage()
	o.commit(o.batch(0, 0, first.RunInserts))
	o.are(0, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	again := o.batch(0, 1, nil)
	o.stage(again)
	if _, err := d.Commit(ctx, again); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
	d.Unstage()
	o.commit(again)
	o.are(1, 2)
	o.stage(o.batch(0, 5, nil))
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestRefusedAhead: if the store refuses a staged batch, its Commit returns the refusal, and no row of it is
// left.
func TestRefusedAhead(t *testing.T) {
	d, _ := openTemp(t)
	o := newOwner(t, d)
	first := o.batch(0, 2, nil)
	o.commit(first)
	bad := o.batch(0, 1, first.RunInserts)
	bad.Consumed = []int64{77}
	d.Stage(bad)
	if _, err := d.Commit(t.Context(), bad); !errors.Is(err, store.ErrFenced) {
		t.Error(err)
	}
	d.Unstage()
	bad.Consumed = nil
	o.commit(bad)
	o.are(1, 2)
}

// TestDisksThatFail: transactions follow one another, staged or not, while the disk sometimes fails, and
// other callers write in between. After a failed commit, the seq of the shard shows its outcome, and the
// transaction that was written ahead is never committed.
func TestDisksThatFail(t *testing.T) {
	for seed := range uint64(3) {
		d, path := openTemp(t)
		o := newOwner(t, d)
		rnd := rand.New(rand.NewPCG(seed, 1))
		var fails atomic.Bool
		disk := func(f *os.File) error {
			if fails.Load() {
				return errDisk
			}
			return syncData(f)
		}
		d.syncFile = disk
		var live []dag.RunRow
		ended, failures := 0, 0
		for step := range 50 {
			b := o.batch(0, 1+rnd.IntN(3), live)
			if rnd.IntN(2) == 0 {
				o.stage(b)
			}
			if rnd.IntN(4) == 0 {
				if _, err := d.Register(t.Context(), uuid.NewString(), "other"); err != nil {
					t.Fatal(err)
				}
			}
			next := o.batch(1, 2, b.RunInserts)
			fails.Store(rnd.IntN(5) == 0)
			staged := make(chan struct{})
			go func() {
				d.Stage(next)
				close(staged)
			}()
			_, err := d.Commit(t.Context(), b)
			<-staged
			fails.Store(false)
			was := o.fence.Seq
			if err != nil {
				if failures++; !errors.Is(err, store.ErrUnknown) {
					t.Fatal(err)
				}
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				var err error
				if d, err = Open(path); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = d.Close() })
				d.syncFile, o.d = disk, d
				o.take()
			} else {
				o.fence.Seq++
			}
			if o.fence.Seq == was+1 {
				ended, live = ended+len(live), slices.Clone(b.RunInserts)
			}
			if err == nil && rnd.IntN(2) == 0 {
				o.commit(next)
				ended, live = ended+len(live), slices.Clone(next.RunInserts)
			} else if err == nil {
				d.Unstage()
			}
			if err != nil || step%10 == 0 {
				o.are(len(live), ended)
			}
		}
		if failures == 0 {
			t.Errorf("seed %d: the disk never failed", seed)
		}
	}
}
