package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"skein.dev/skein/internal/logs"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// openLogs is where logs are kept beside the files of each node: in the shared folder if there
// is one, else in the database of a cluster; nil: nowhere.
func openLogs(cfg *Config, st store.Store) (logs.Store, error) {
	if cfg.Logs != "" {
		if info, err := os.Stat(cfg.Logs); err != nil || !info.IsDir() {
			return nil, &SettingError{Name: "logs", Origin: cfg.origin("logs"),
				Err: fmt.Errorf("%s is not a folder: make it, or mount it, on every node", cfg.Logs)}
		}
		return logs.Folder{Path: cfg.Logs}, nil
	}
	if rows, ok := st.(store.Logs); ok {
		return logs.NewDatabase(rows, logs.KeepDefault), nil
	}
	return nil, nil
}

// logSource finds the logs of attempts: in the data folder of this node, where they are whole,
// or else where all nodes find them.
type logSource struct {
	own    logs.Folder
	shared logs.Store // nil: there is none
}

var _ server.LogSource = logSource{}

// Open implements server.LogSource. An attempt that has written nothing has no log.
func (l logSource) Open(ctx context.Context, ref server.LogRef) (server.LogReader, error) {
	r := logs.Ref{Namespace: ref.Namespace, Workflow: ref.Workflow, Run: ref.Run, Task: ref.Index, Name: ref.Task, Token: ref.Attempt}
	found, err := l.own.Open(ctx, r)
	if errors.Is(err, fs.ErrNotExist) && l.shared != nil {
		found, err = l.shared.Open(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}
