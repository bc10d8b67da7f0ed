package app

import (
	"context"
	"fmt"
	"path/filepath"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/protect"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/source"
	"skein.dev/skein/internal/stamp"
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
		Rules:     n.connector.rules,
		Protected: n.cfg.Unwatched(), Shared: source.NewShared(),
		Version: stamp.Build(), Plus: stamp.Plus, Extensions: n.extensions, Memory: n.cfg.SourceMemory,
	}
	return source.New(source.Config{Triggers: n.sensors, Trigger: n.store.Trigger, Owns: n.engine.Owns, Open: means.Open,
		Egress: engine.NamespacesOf(n.engine.Engine).Egress, Cursor: source.Stored(n.planner), Hear: engine.IntakeOf(n.engine.Engine).Take, Name: means.Name, Log: n.log})
}

// newGit makes the part that reads the repositories of git sources.
func newGit(n *Node) *gitsync.Syncer {
	return gitsync.New(gitsync.Config{Store: n.store, Owns: n.engine.Owns, Applier: func() gitsync.Applier { return server.GitSets(n.server) }, Log: n.log,
		Needs: gitsync.Needs{Dir: filepath.Join(n.cfg.Data, "git"), Rules: n.connector.rules,
			Secret: func(ctx context.Context, namespace, name string) (string, error) {
				value, err := n.secretNow(ctx, namespace, name)
				return string(value), err
			},
			Protected: func(path string) error {
				if protect.Holds(path, n.cfg.Unwatched()) {
					return fmt.Errorf("%s is a folder with files of a node; put the repository elsewhere", path)
				}
				return nil
			}}})
}
