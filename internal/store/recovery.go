package store

import (
	"context"

	"skein.dev/skein/internal/dag"
)

// Standing is the state of an unfinished run, without its content. A sweep reads it for every run.
type Standing struct {
	Run      dag.RunID
	Shard    dag.ShardID
	Workflow dag.WorkflowID
	State    dag.RunState
	Intent   dag.Intent
	Created  dag.Micros
	// Moved is the latest instant in the run's rows: the creation, the split or the begin of the run, or the
	// assignment, the begin or the end of one of its attempts.
	Moved dag.Micros
	// Later is the latest instant at which a task of the run is retried, or at which an attempt counts as
	// ended without a report, or 0 if there is none.
	Later  dag.Micros
	Claim  *dag.Claim
	Parent dag.RunID // the run that has called this one; zero if there is none
	Live   []Live    // attempts that workers hold, by task and token
	// Bad is the reason why the rows could not be read. If it is set, only Run and Shard are valid.
	Bad error
}

// Live is an attempt that a worker holds.
type Live struct {
	Task     dag.TaskID
	Token    dag.Token
	Handler  dag.HandlerID
	State    dag.AttemptState
	Assigned dag.Micros
}

// Sweeps is the part of a store that a sweep reads.
type Sweeps interface {
	// Standing reads the states of the next unfinished runs of a shard, in an order of the engine, after the
	// given run. Because a sweep reads all unfinished runs in this way, the states contain no parameters,
	// graphs, outputs or texts.
	Standing(ctx context.Context, shard dag.ShardID, after dag.RunID, limit int) ([]Standing, error)
}

// See adds an attempt of the run.
func (s *Standing) See(a *Live, started, finished, later dag.Micros) {
	s.Moved = max(s.Moved, a.Assigned, started, finished)
	s.Later = max(s.Later, later)
	if !a.State.Ended() && a.State != dag.AttemptDeferred {
		s.Live = append(s.Live, *a)
	}
}

// Called reads the call that started the run from its packed origin (dag.Fire). It returns nil if no other
// run started it.
func (s *Standing) Called(fire []byte) error {
	f, err := dag.UnpackFire(fire)
	if err == nil && f != nil && f.Parent != nil {
		s.Parent = f.Parent.Up().Run
	}
	return err
}
