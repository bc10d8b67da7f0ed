package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

const (
	// givesMax bounds the number of pieces of logs that are read at the same time. A home does not request
	// more.
	givesMax = 4
	// giveMax bounds one call: after this time the home node no longer waits for the piece.
	giveMax = 5 * time.Second
)

// give sends pieces of logs to the home node that has requested them. It handles at most givesMax requests at
// a time. The home node treats a request beyond that as unanswered.
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
				r.log.Debug("a part of a log could not be sent", "run", want.GetAttempt().GetRun(), "task", want.Task, "err", err)
			}
		})
	}
}

// giveOne sends one piece of a log. It also answers if the log is not on this machine, so that the home node
// does not wait for it.
func (r *Worker) giveOne(ctx context.Context, want *workerv1.LogRead) error {
	data, err := r.printed(ctx, want)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Warn("a log cannot be read", "code", "log_unreadable", "run", want.GetAttempt().GetRun(), "task", want.Task, "err", err)
	}
	c, err := r.s.Caller()
	if err != nil {
		return err
	}
	_, err = c.Home.GiveLog(ctx, &workerv1.GiveLogRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID, Ticket: want.Ticket, Data: data})
	return err
}

// printed reads a piece of the log of an attempt. A log exists only for attempts that ran over this data
// folder.
func (r *Worker) printed(ctx context.Context, want *workerv1.LogRead) ([]byte, error) {
	run, err := dag.ParseRunID(want.GetAttempt().GetRun())
	if err != nil || want.Offset < 0 {
		return nil, fmt.Errorf("run %q from %d is not valid", want.GetAttempt().GetRun(), want.Offset)
	}
	file, err := logs.Folder{Path: r.cfg.Data}.Open(ctx, logs.Ref{Namespace: want.Namespace, Workflow: want.Workflow, Run: run,
		Task: dag.TaskID(want.Attempt.Task), Name: want.Task, Token: dag.Token(want.Attempt.Token)})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if want.Index {
		return piece(file, want)
	}
	data := make([]byte, max(0, min(want.Limit, logs.PieceMax)))
	n, err := file.ReadAt(data, want.Offset)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// piece returns a piece of the index of a log.
func piece(log logs.Reader, want *workerv1.LogRead) ([]byte, error) {
	indexed, ok := log.(logs.Indexed)
	if !ok {
		return nil, fs.ErrNotExist
	}
	records, err := indexed.Index()
	if err != nil {
		return nil, err
	}
	from := min(want.Offset, int64(len(records)))
	return records[from:min(int64(len(records)), from+int64(max(0, min(want.Limit, logs.PieceMax))))], nil
}
