package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// openLogs opens the log store that all nodes share, in addition to the files of each node. It is the shared
// folder if there is one, and otherwise the database of a cluster. openLogs returns nil if there is neither.
func openLogs(cfg *config.Config, st store.Store) (logs.Store, error) {
	if cfg.Logs != "" {
		if info, err := os.Stat(cfg.Logs); err != nil || !info.IsDir() {
			return nil, cfg.Wrong("logs", fmt.Errorf("%s is not a folder: create it, or mount it, on every node", cfg.Logs))
		}
		return logs.Folder{Path: cfg.Logs}, nil
	}
	if rows := store.Can(st).Logs; rows != nil {
		return logs.NewDatabase(rows, logs.KeepDefault), nil
	}
	return nil, nil
}

// logSource finds the logs of attempts. It first searches the data folder of this node, in which logs are
// complete, and then the shared store. Parts of a log that the shared store does not have come from the
// worker of the attempt.
type logSource struct {
	own    logs.Folder
	shared logs.Store                                      // nil if there is none
	giver  func(ref *logs.Ref, h dag.HandlerID) logs.Giver // nil if there are no workers
}

var _ server.LogSource = logSource{}

// Open implements server.LogSource. It returns fs.ErrNotExist for an attempt that has written nothing.
func (l logSource) Open(ctx context.Context, ref server.LogRef) (server.LogReader, error) {
	r := logs.Ref{Namespace: ref.Namespace, Workflow: ref.Workflow, Run: ref.Run, Task: ref.Index, Name: ref.Task, Token: ref.Attempt}
	found, err := l.own.Open(ctx, r)
	if errors.Is(err, fs.ErrNotExist) && l.shared != nil {
		found, err = l.shared.Open(ctx, r)
		if err == nil && l.giver != nil && l.shared.Keep() > 0 {
			found = logs.Whole(ctx, found, l.giver(&r, ref.Handler))
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// giver gets pieces of a log from the worker that has or had the attempt. The worker may have restarted
// since, under another handler.
func (m *membership) giver(st store.Store, ref *logs.Ref, h dag.HandlerID) logs.Giver {
	return func(ctx context.Context, p logs.Piece) ([]byte, error) {
		w, ok := m.workerOf(ctx, st, h)
		if !ok {
			return nil, nil
		}
		return m.home.ReadLog(ctx, w, *ref, p)
	}
}

// workerOf returns the present handler of the worker that a handler is or was, if that worker is listed.
func (m *membership) workerOf(ctx context.Context, st store.Store, h dag.HandlerID) (dag.HandlerID, bool) {
	if o, ok := m.node.Member(h); ok {
		return h, o.Worker
	}
	was, err := st.Handlers(ctx, []dag.HandlerID{h})
	if err != nil || len(was) == 0 {
		return 0, false
	}
	members, _ := m.node.View()
	i := slices.IndexFunc(members, func(o store.Member) bool { return o.Worker && o.Name == was[0].Node })
	if i < 0 {
		return 0, false
	}
	return members[i].Handler, true
}
