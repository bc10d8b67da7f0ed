package remote

import (
	"context"
	"errors"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/logs"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// push sends the output of attempts to the present home.
type push struct{ r *Worker }

var _ logs.Sink = push{}

var errNoHome = errors.New("this worker is attached to no node now")

// Keep implements logs.Sink.
func (p push) Keep() int64 {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.r.logsKeep
}

// Append implements logs.Sink. If the nodes keep no logs, it answers that no attempt exists, and the shipper
// sends nothing.
func (p push) Append(ctx context.Context, chunks []logs.Chunk) ([]int64, error) {
	r := p.r
	r.mu.Lock()
	in, home, kept := &workerv1.PushLogsRequest{Handler: r.handler, Lease: r.lease, Uuid: r.uuid}, r.home, r.logs
	r.mu.Unlock()
	switch {
	case in.Lease == 0:
		return nil, errNoHome
	case !kept:
		ends := make([]int64, len(chunks))
		for i := range ends {
			ends[i] = -1
		}
		return ends, nil
	}
	for i := range chunks {
		c := &chunks[i]
		in.Chunks = append(in.Chunks, &workerv1.LogChunk{Attempt: &workerv1.Attempt{Run: c.Run.String(), Task: int32(c.Task), Token: int64(c.Token)},
			Namespace: c.Namespace, Workflow: c.Workflow, Task: c.Name, Offset: c.Offset, Cut: c.Cut, Data: c.Data})
	}
	out, err := r.client(home).PushLogs(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(out.Ends) != len(chunks) {
		return nil, errors.New("the home has answered about other logs than the worker has sent")
	}
	return out.Ends, nil
}

// logOf names the log of an attempt.
func (a *attempt) logOf(namespace, workflow string) (logs.Ref, bool) {
	run, err := dag.ParseRunID(a.name.Run)
	return logs.Ref{Namespace: namespace, Workflow: workflow, Run: run, Task: dag.TaskID(a.name.Task), Name: a.key.Task, Token: dag.Token(a.name.Token)}, err == nil
}
