package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Standing is how an unfinished run stands, without what it is made of: what a sweep of all runs
// decides by.
type Standing struct {
	Run      dag.RunID
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	State    dag.RunState
	Intent   dag.Intent
	Created  dag.Micros
	// Moved is the latest instant that its rows tell of: it was made, was split, began, or an attempt of it
	// was handed over, began, or ended.
	Moved dag.Micros
	// Later is the latest instant at which an attempt is tried again, or is over by itself; 0: none is.
	Later  dag.Micros
	Claim  *dag.Claim
	Parent dag.RunID // the run that has called it; zero: none has
	Live   []Live    // attempts that somebody holds, by task and token
	// Bad says why the rows could not be read; then only Run and Shard count.
	Bad error
}

// Live is an attempt that somebody holds.
type Live struct {
	Task     dag.TaskID
	Token    dag.Token
	Handler  dag.HandlerID
	State    dag.AttemptState
	Assigned dag.Micros
}

// Sweeps is the part of a store that a sweep reads.
type Sweeps interface {
	// Standing reads how the next unfinished runs of a shard stand, in an order of the store's own, after one.
	// It is made for reading all of them: it brings neither parameters, graphs, outputs nor texts.
	Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) ([]Standing, error)
}

// See takes in an attempt of the run.
func (s *Standing) See(a *Live, started, finished, later dag.Micros) {
	s.Moved = max(s.Moved, a.Assigned, started, finished)
	s.Later = max(s.Later, later)
	if !a.State.Ended() && a.State != dag.AttemptDeferred {
		s.Live = append(s.Live, *a)
	}
}

// Called takes in what started the run, packed; nil: no other run has.
func (s *Standing) Called(fire []byte) error {
	f, err := dag.UnpackFire(fire)
	if err == nil && f != nil && f.Parent != nil {
		s.Parent = f.Parent.Up().Run
	}
	return err
}
