package app

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/worker"
)

// logFolder finds the logs of attempts in the data folder.
type logFolder struct{ data string }

var _ server.LogSource = logFolder{}

// Open implements server.LogSource. An attempt that has written nothing has no file.
func (l logFolder) Open(_ context.Context, ref server.LogRef) (server.LogReader, error) {
	path := worker.LogPath(l.data, worker.Key{Namespace: ref.Namespace, Workflow: ref.Workflow, RunID: ref.Run.String(),
		Task: ref.Task, Attempt: int(ref.Attempt)})
	if path == "" {
		return nil, fmt.Errorf("log of %s, attempt %d: %w", ref.Task, ref.Attempt, fs.ErrNotExist)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return logReader{file}, nil
}

type logReader struct{ *os.File }

// Size is how much there is now; the attempt may still write.
func (r logReader) Size() (int64, error) {
	info, err := r.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
