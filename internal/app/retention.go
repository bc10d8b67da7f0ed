package app

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/retention"
)

// retention returns what a Cleaner of this node needs.
func (n *Node) retention() retention.Config {
	return retention.Config{Store: n.store, Changed: n.rekept, ByHand: n.byHand, Superseded: retention.SupersededMin, Rest: retention.RestUsual, Log: n.log,
		Rules: func() retention.Rules {
			c := n.keeping()
			return retention.Rules{Age: c.RetentionAge, Runs: c.RetentionRuns, Bounds: c.Bounds}
		},
		Owner: func() dag.HandlerID { return n.engine.Handler().ID }, Owns: n.engine.Owns,
		Exists:      func(ctx context.Context, run dag.RunID) error { _, err := n.engine.RunRow(ctx, run); return err },
		DeleteFiles: n.deleteFiles, Roots: fileRoots(n.cfg),
		Count:  n.upkeep.tally.Step,
		Gone:   func(runs int) { n.engine.Stats().Expired.Add(int64(runs)) },
		Passed: func() { n.upkeep.passed.Store(time.Now().UnixMicro()) },
	}
}

// fileRoots are the folders that have a folder of each namespace.
func fileRoots(cfg *config.Config) (all []string) {
	for _, root := range []string{cfg.Data, cfg.Logs, cfg.Artifacts} {
		if root != "" {
			all = append(all, filepath.Join(root, "logs"), filepath.Join(root, "artifacts"))
		}
	}
	return all
}

// deleteFiles deletes the log files and artifacts of deleted runs on this node and in the shared folders.
func (n *Node) deleteFiles(ctx context.Context, gone []logs.Run) error {
	err := logs.Folder{Path: n.cfg.Data}.Delete(ctx, gone)
	if n.cfg.Logs != "" {
		err = errors.Join(err, n.logs.Delete(ctx, gone))
	}
	runs := make([]artifact.Run, len(gone))
	for i, r := range gone {
		runs[i] = artifact.Run{Namespace: r.Namespace, Workflow: r.Workflow, ID: r.ID.String()}
	}
	return errors.Join(err, artifactsHere(n.cfg).Delete(ctx, runs))
}
