package trigger

import (
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/workflow"
)

var _ engine.Namer = (*Planner)(nil)

// Names reads the queues and locks that the runs of a version use. It implements the engine's Namer.
func (p *Planner) Names(def []byte) (engine.Names, error) {
	c, err := workflow.DecodeClaims(def)
	if err != nil || c == nil {
		return nil, err
	}
	return names{c}, nil
}

type names struct{ *workflow.Claims }

// Of implements engine.Names.
func (n names) Of(trigger string, params []byte, instant dag.Micros) (engine.Named, error) {
	out := engine.Named{Fail: n.LockPolicy == "fail"}
	out.Queue, out.By = n.QueueOf(trigger)
	var err error
	out.Locks, out.Global, err = n.LocksOf(params, moment(instant))
	return out, err
}

// CheckKey checks the expression per_key of a queue.
func (p *Planner) CheckKey(expr string) error { return workflow.CheckKey(expr) }

// KeyOf compiles the expression per_key of a queue.
func (p *Planner) KeyOf(expr string) (func(params []byte, instant dag.Micros) (string, error), error) {
	k, err := workflow.CompileKey(expr)
	if err != nil {
		return nil, err
	}
	return func(params []byte, instant dag.Micros) (string, error) { return k.Key(params, moment(instant)) }, nil
}
