package app

import (
	"context"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/source"
)

// newSources makes the supervisor of the sources of events.
func newSources(n *Node) *source.Supervisor {
	means := &source.Means{
		Workflow: func(ctx context.Context, id dag.WorkflowID) (namespace, name string, err error) {
			w, err := n.store.WorkflowByID(ctx, id)
			return w.Namespace, w.Name, err
		},
		Connection: func(ctx context.Context, namespace, name string) ([]byte, error) {
			row, err := n.store.ConnectionOf(ctx, namespace, name)
			return row.Data, err
		},
		Secret: func(ctx context.Context, namespace, name string) (string, error) {
			value, err := n.secretNow(ctx, namespace, name)
			return string(value), err
		},
		Transport: n.connector.transport, Dial: n.connector.dial, Rules: n.connector.rules,
		Protected: n.cfg.Unwatched(), Shared: source.NewShared(),
	}
	return source.New(source.Config{Triggers: n.sensors, Trigger: n.store.Trigger, Owns: n.engine.Owns, Open: means.Open,
		Cursor: source.Stored(n.planner), Hear: engine.IntakeOf(n.engine.Engine).Take, Name: means.Name, Log: n.log})
}
