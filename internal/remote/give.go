package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
)

const (
	// givesMax is how many pieces of logs are read at a time: a home does not ask for more.
	givesMax = 4
	// giveMax bounds one call: by then nobody waits for it any more.
	giveMax = 5 * time.Second
)

// give gives the home that has asked the pieces of logs that it wants. What is too many is not answered, as
// by a worker that is too slow.
func (r *Worker) give(reads []*workerv1.LogRead) {
	for _, want := range reads {
		select {
		case r.gives <- struct{}{}:
		default:
			continue
		}
		r.bringing.Go(func() {
			defer func() { <-r.gives }()
			ctx, cancel := context.WithTimeout(r.life, giveMax)
			defer cancel()
			if err := r.giveOne(ctx, want); err != nil && ctx.Err() == nil {
				r.log.Debug("a piece of a log was not given", "run", want.GetAttempt().GetRun(), "task", want.Task, "err", err)
			}
		})
	}
}

// giveOne answers also for what is not here, so that nobody waits for it.
func (r *Worker) giveOne(ctx context.Context, want *workerv1.LogRead) error {
	data, err := r.printed(ctx, want)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("a log cannot be read", "code", "log_unreadable", "run", want.GetAttempt().GetRun(), "task", want.Task, "err", err)
	}
	c, err := r.caller()
	if err != nil {
		return err
	}
	_, err = c.home.GiveLog(ctx, &workerv1.GiveLogRequest{Handler: c.handler, Lease: c.lease, Uuid: c.uuid, Ticket: want.Ticket, Data: data})
	return err
}

// printed reads a piece of the log of an attempt: there is a file for those only that ran here, or over the
// same data folder.
func (r *Worker) printed(ctx context.Context, want *workerv1.LogRead) ([]byte, error) {
	run, err := dag.ParseRunID(want.GetAttempt().GetRun())
	if err != nil || want.Offset < 0 {
		return nil, fmt.Errorf("run %q from %d makes no sense", want.GetAttempt().GetRun(), want.Offset)
	}
	file, err := logs.Folder{Path: r.cfg.Data}.Open(ctx, logs.Ref{Namespace: want.Namespace, Workflow: want.Workflow, Run: run,
		Task: dag.TaskID(want.Attempt.Task), Name: want.Task, Token: dag.Token(want.Attempt.Token)})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, max(0, min(want.Limit, logs.PieceMax)))
	n, err := file.ReadAt(data, want.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}
