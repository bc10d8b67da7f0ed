package memory_test

import (
	"context"
	"errors"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// TestFaults checks, for each fault, the answer of an operation and whether the operation has happened.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      memory.OpKind
		outcome memory.Outcome
		want    error
		written bool
	}{
		{"nothing fails", 0, memory.OK, nil, true},
		{"fails before", memory.CommitBefore, memory.FailBefore, store.ErrUnavailable, false},
		{"unknown, written", memory.CommitBefore, memory.UnknownWritten, store.ErrUnknown, true},
		{"unknown, lost", memory.CommitBefore, memory.UnknownLost, store.ErrUnknown, false},
		{"refused", memory.CommitBefore, memory.Refuse, store.ErrRefused, false},
		{"answer lost", memory.CommitAfter, memory.UnknownWritten, store.ErrUnknown, true},
		{"too late to fail", memory.CommitAfter, memory.FailBefore, store.ErrUnknown, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := memory.New(memory.Options{
				Clock: func() dag.Micros { return 42 },
				Fault: func(op memory.Op) memory.Outcome {
					if op.Kind == c.at {
						return c.outcome
					}
					return memory.OK
				},
			})
			got, err := s.Acquire(t.Context(), 1, []dag.ShardID{0})
			if err != nil || got[0].Now != 42 {
				t.Fatal(got, err)
			}
			b := store.Batch{Fences: []store.Fence{got[0].Fence}}
			b.RunInserts = []dag.RunRow{{Header: dag.Header{ID: dag.RunID{1}}}}
			now, err := s.Commit(t.Context(), &b)
			if !errors.Is(err, c.want) || err == nil && now != 42 {
				t.Fatalf("commit: %d, %v", now, err)
			}
			_, missing := s.Run(t.Context(), dag.RunID{1})
			again, err := s.Acquire(t.Context(), 2, []dag.ShardID{0})
			if err != nil || (missing == nil) != c.written || (again[0].Seq == 1) != c.written || again[0].Previous != 1 {
				t.Fatalf("run: %v, shard: %+v, %v", missing, again, err)
			}
		})
	}
}

// TestFaultsElsewhere: operations other than Commit fail as the test demands.
func TestFaultsElsewhere(t *testing.T) {
	var at memory.OpKind
	outcome := memory.OK
	s := memory.New(memory.Options{Shards: 2, Fault: func(op memory.Op) memory.Outcome {
		if op.Kind == at {
			return outcome
		}
		return memory.OK
	}})
	ctx := context.Background()
	acquire := func() error { _, err := s.Acquire(ctx, 1, []dag.ShardID{0, 1}); return err }
	register := func() error { _, err := s.Register(ctx, "u", "n"); return err }
	load := func() error { _, err := s.Load(ctx, store.LoadQuery{}); return err }
	scan := func() error {
		return s.Scan(ctx, func(store.RunRecord, []dag.EventRow) error { return nil })
	}
	read := func() error { _, err := s.Info(ctx); return err }
	claim := func() error { _, err := s.Claim(ctx, 1, []dag.ShardID{1}); return err }
	leave := func() error { return s.Leave(ctx, 1) }
	members := func() error { _, _, err := s.Members(ctx); return err }
	for _, c := range []struct {
		at      memory.OpKind
		outcome memory.Outcome
		do      func() error
		want    error
	}{
		{memory.AcquireBefore, memory.FailBefore, acquire, store.ErrUnavailable},
		{memory.AcquireBefore, memory.UnknownLost, acquire, store.ErrUnknown},
		{memory.AcquireAfter, memory.UnknownWritten, acquire, store.ErrUnknown},
		{memory.RegisterBefore, memory.FailBefore, register, store.ErrUnavailable},
		{memory.RegisterAfter, memory.UnknownWritten, register, store.ErrUnknown},
		{memory.RegisterAfter, memory.OK, register, store.ErrRefused}, // the row was written
		{memory.Load, memory.FailBefore, load, store.ErrUnavailable},
		{memory.Scan, memory.FailBefore, scan, store.ErrUnavailable},
		{memory.Read, memory.FailBefore, read, store.ErrUnavailable},
		{memory.Read, memory.OK, read, nil},
		{memory.ClaimBefore, memory.UnknownLost, claim, store.ErrUnknown},
		{memory.ClaimAfter, memory.UnknownWritten, claim, store.ErrUnknown},
		{memory.MemberBefore, memory.FailBefore, leave, store.ErrUnavailable},
		{memory.MemberAfter, memory.UnknownWritten, leave, store.ErrUnknown},
		{memory.Members, memory.FailBefore, members, store.ErrUnavailable},
	} {
		at, outcome = c.at, c.outcome
		if err := c.do(); !errors.Is(err, c.want) {
			t.Errorf("%s with outcome %d: %v, want %v", c.at, c.outcome, err, c.want)
		}
	}
	at = 0
	got, err := s.Acquire(ctx, 1, []dag.ShardID{0})
	if err != nil || got[0].Epoch != 2 {
		t.Errorf("one unknown acquire was written: %+v, %v", got, err)
	}
}

// TestFaultBetween: the hook may use the store. So another owner can take the shards between a commit and its
// answer.
func TestFaultBetween(t *testing.T) {
	var s *memory.Store
	s = memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
		if op.Kind == memory.CommitBefore && op.Batch.Fences[0].Epoch == 1 {
			if _, err := s.Acquire(context.Background(), 2, []dag.ShardID{0}); err != nil {
				t.Error(err)
			}
		}
		return memory.OK
	}})
	got, err := s.Acquire(t.Context(), 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), &store.Batch{Fences: []store.Fence{got[0].Fence}}); !errors.Is(err, store.ErrFenced) {
		t.Fatalf("the owner of before: %v", err)
	}
}
