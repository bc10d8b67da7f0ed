package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

const (
	// lookEach is the time between two searches for rows without an index. A change at this node wakes the
	// keeper earlier.
	lookEach = 5 * time.Second
	// signEach is the least time between two checkpoints, between two writes of refused calls, and between
	// two log lines about the same error.
	signEach = time.Minute
	// readsEach is the time between two writes of reads. It is less than lateMax.
	readsEach = 5 * time.Minute
	// forgetEach is the time between two searches for rows that are older than their retention.
	forgetEach = time.Hour
	// stepRows bounds the rows of one transaction, and of one reading.
	stepRows = 500
	// stepsMax bounds the transactions of one search. The next search continues.
	stepsMax = 100
)

// Store is the part of a store that a Keeper needs.
type Store interface {
	store.AuditLog
	Marks(ctx context.Context) ([]store.Fence, error)
	Clock(ctx context.Context) (dag.Micros, error)
}

// Config holds the dependencies of a Keeper.
type Config struct {
	Store  Store
	Origin string
	// Signer signs checkpoints, which go to File. If it is nil, this process signs none.
	Signer note.Signer
	File   *File
	// Keep returns the age after which rows are deleted. 0 means never.
	Keep func() time.Duration
	// Reads reports whether reads of a namespace are recorded, or with "" those of any namespace. If it is
	// nil, none are.
	Reads func(namespace string) bool
	Log   *slog.Logger
}

// Keeper gives audit rows their index, signs checkpoints and deletes old rows. Every node has one. The
// store lets only one of them do a step, so it does not matter which one is first, and no other node has
// to take over.
//
// A keeper computes the tree that it signs from the rows. It never signs different content for rows that it
// has signed before, unless the era has risen.
type Keeper struct {
	cfg     Config
	wake    chan struct{}
	fold    *Fold
	reads   *Fold
	counted []store.Audit // rows that were taken from fold and reads, but are not written yet

	signed   Checkpoint // the last one
	edge     edge       // the edge of the rows that were read
	era      dag.Era    // era of edge
	reported int64      // the size of the tree when missing rows were last reported
	at       struct{ signed, folded, read, forgot, told time.Time }
	told     string // the last error in the log
}

// NewKeeper returns the keeper of a node. It continues after the last checkpoint of the node's file.
func NewKeeper(c Config) (*Keeper, error) {
	k := &Keeper{cfg: c, wake: make(chan struct{}, 1), fold: NewFold(dag.Micro(time.Now())), reads: NewReads(dag.Micro(time.Now())), edge: edge{factory.NewEmptyRange(0)}, reported: -1}
	if c.Signer == nil {
		return k, nil
	}
	last, found, err := c.File.Last(c.Origin)
	if err != nil || !found {
		return k, err
	}
	k.signed, k.era, k.at.signed = last, last.Era, last.At
	k.edge, err = newEdge(last.Size, last.Edge)
	return k, err
}

// Wake makes the keeper search for a new row.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Refuse counts a refused call.
func (k *Keeper) Refuse(r store.Audit) {
	r.Clean()
	k.fold.Add(dag.Micro(time.Now()), r)
}

// Reads reports whether reads of a namespace are recorded, or with "" those of any namespace.
func (k *Keeper) Reads(namespace string) bool {
	return k.cfg.Reads != nil && k.cfg.Reads(namespace)
}

// Read counts a read.
func (k *Keeper) Read(r store.Audit) {
	r.Clean()
	k.reads.Add(dag.Micro(time.Now()), r)
}

// Run works until the context ends. At the end it writes its counts.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for {
		err := k.Step(ctx, false)
		switch {
		case ctx.Err() != nil:
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookEach)
			_ = k.Step(last, true) // the database may be unreachable
			cancel()
			return
		case err != nil:
			tell(k, err)
		}
		select {
		case <-ctx.Done():
		case <-k.wake:
		case <-tick.C:
		}
	}
}

// tell logs an error. Each change wakes the keeper, so tell does not log the same error each time.
func tell(k *Keeper, err error) {
	if now := time.Now(); err.Error() != k.told || passed(now, k.at.told, signEach) {
		k.told, k.at.told = err.Error(), now
		k.cfg.Log.Warn("the audit log cannot be extended now; the node tries again", "code", "audit_behind", "err", err)
	}
}

// passed reports whether a time has passed since an instant. It returns true if the clock was set back.
func passed(now, since time.Time, d time.Duration) bool {
	return now.Sub(since) >= d || now.Before(since)
}

// Step does all work that is due. If all is set, it does not wait for any interval. An error in one part does
// not stop the other parts, unless the database does not answer.
func (k *Keeper) Step(ctx context.Context, all bool) error {
	now := time.Now()
	due := func(at *time.Time, each time.Duration) bool {
		is := all || passed(now, *at, each)
		if is {
			*at = now
		}
		return is
	}
	var failed error
	part := func(do func(context.Context) error) {
		if !errors.Is(failed, store.ErrUnavailable) {
			failed = errors.Join(failed, do(ctx))
		}
	}
	if due(&k.at.folded, signEach) {
		part(func(ctx context.Context) error { return k.write(ctx, k.fold) })
	}
	if due(&k.at.read, readsEach) {
		part(func(ctx context.Context) error { return k.write(ctx, k.reads) })
	}
	part(k.grow)
	if k.cfg.Keep != nil && due(&k.at.forgot, forgetEach) {
		part(k.Forget)
	}
	if k.cfg.Signer != nil && (all || passed(now, k.at.signed, signEach)) {
		part(k.sign)
	}
	return failed
}

// write writes the rows of counted calls. If an earlier attempt has failed, it writes the rows of that one
// first.
func (k *Keeper) write(ctx context.Context, of *Fold) error {
	for taken := false; ; {
		if len(k.counted) == 0 && !taken {
			k.counted, taken = of.Take(dag.Micro(time.Now())), true
		}
		if len(k.counted) == 0 {
			return nil
		}
		// The rows have keys, so a further attempt writes no row twice.
		n := min(len(k.counted), stepRows)
		if err := k.cfg.Store.AddAudit(ctx, k.counted[:n]...); err != nil {
			return fmt.Errorf("write counted calls: %w", err)
		}
		k.counted = k.counted[n:]
	}
}

// grow gives the rows without an index their index.
func (k *Keeper) grow(ctx context.Context) error {
	for range stepsMax {
		rows, err := k.cfg.Store.AuditFresh(ctx, stepRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		t, err := k.cfg.Store.AuditTree(ctx)
		if err != nil {
			return err
		}
		marks, err := k.cfg.Store.Marks(ctx)
		if err != nil {
			return err
		}
		next, leaves, err := Grow(t, store.FloorOf(marks), rows)
		if err != nil {
			return err
		}
		err = k.cfg.Store.GrowAudit(ctx, t.Size, next, leaves)
		if errors.Is(err, store.ErrRefused) {
			return fmt.Errorf("the audit log has a row with the index %d or a later one that no node wrote; run skein audit verify: %w", t.Size, err)
		}
		if err != nil && !errors.Is(err, store.ErrFenced) { // fenced: another node was faster
			return err
		}
	}
	return nil
}

// Forget deletes the rows that are older than the retention.
func (k *Keeper) Forget(ctx context.Context) error {
	keep := k.cfg.Keep()
	if keep == 0 {
		return nil
	}
	now, err := k.cfg.Store.Clock(ctx)
	if err != nil {
		return err
	}
	for range stepsMax {
		t, err := k.cfg.Store.AuditTree(ctx)
		if err != nil {
			return err
		}
		rows, err := k.cfg.Store.AuditLeaves(ctx, t.First, stepRows)
		if err != nil {
			return err
		}
		n := 0
		for n < len(rows) && rows[n].Last < now-dag.Micros(keep.Microseconds()) {
			n++
		}
		if n == 0 {
			return nil
		}
		to, err := Forget(t, rows[:n])
		if err != nil {
			return err
		}
		if err := k.cfg.Store.ForgetAudit(ctx, t, to); err != nil {
			if errors.Is(err, store.ErrFenced) {
				return nil
			}
			return err
		}
	}
	return nil
}

// raised records a raised floor of the era in the tree, unless a row has already done so. The missing rows
// were lost when the database lost its newest transactions. The begin of an era alone proves no loss, so it
// explains no missing rows.
func raised(ctx context.Context, s Store, t store.AuditTree) (store.AuditTree, error) {
	marks, err := s.Marks(ctx)
	if err != nil || store.FloorOf(marks) <= t.Era {
		return t, err
	}
	next, _, err := Grow(t, store.FloorOf(marks), nil)
	if err == nil {
		err = s.GrowAudit(ctx, t.Size, next, nil)
	}
	if errors.Is(err, store.ErrFenced) { // another node was faster
		return s.AuditTree(ctx)
	}
	return next, err
}

// sign signs the present tree if it has grown or its era has risen.
func (k *Keeper) sign(ctx context.Context) error {
	t, err := k.cfg.Store.AuditTree(ctx)
	if err == nil && t.Size < k.edge.size() && t.Era <= k.era {
		t, err = raised(ctx, k.cfg.Store, t)
	}
	if err != nil {
		return err
	}
	if t.Size < k.edge.size() && t.Era <= k.era && k.reported != t.Size {
		k.reported = t.Size
		k.cfg.Log.Error("the newest rows of the audit log are gone; run skein audit verify", "code", "audit_cut", "rows", t.Size, "signed", k.edge.size())
	}
	if t.Size < k.edge.size() && t.Era <= k.era {
		return nil // a node never signs two different histories
	}
	if t.Size == k.signed.Size && t.Era == k.signed.Era {
		return nil // the next row gets its checkpoint at once
	}
	k.at.signed = time.Now() // set also if the signature fails, because the next row is no reason for a further attempt
	if t.Era > k.era {       // the era has changed, and with it the rows from its base on
		if k.edge, err = newEdge(t.First, t.Head); err != nil {
			return err
		}
		k.era = t.Era
	}
	if k.edge.size() < t.First {
		if k.edge, err = newEdge(t.First, t.Head); err != nil { // this node has missed several steps
			return err
		}
	}
	if err := k.follow(ctx, t.Size); err != nil {
		return err
	}
	root, err := k.edge.root()
	if err != nil {
		return err
	}
	c := Checkpoint{Origin: k.cfg.Origin, Size: t.Size, Root: root, Era: t.Era, Base: t.Base, At: time.Now(), Edge: k.edge.packed()}
	text, err := c.Sign(k.cfg.Signer)
	if err != nil {
		return err
	}
	if err := k.cfg.File.Append(text); err != nil {
		return err
	}
	k.signed = c
	return nil
}

// follow adds the rows up to a size to the edge of this node.
func (k *Keeper) follow(ctx context.Context, size int64) error {
	for k.edge.size() < size {
		rows, err := k.cfg.Store.AuditLeaves(ctx, k.edge.size(), stepRows)
		if err != nil {
			return err
		}
		for i := range rows {
			r := &rows[i]
			if r.Index >= size {
				break
			}
			if r.Index != k.edge.size() {
				return fmt.Errorf("row %d of the audit log is missing; run skein audit verify", k.edge.size())
			}
			if hash := Hash(r); !bytes.Equal(hash, r.Hash) {
				return fmt.Errorf("row %d of the audit log was changed; run skein audit verify", r.Index)
			}
			if err := k.edge.append(r.Hash); err != nil {
				return fmt.Errorf("follow the audit log: %w", err)
			}
		}
		if len(rows) == 0 {
			return fmt.Errorf("row %d of the audit log is missing; run skein audit verify", k.edge.size())
		}
	}
	return nil
}
