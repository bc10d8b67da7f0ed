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

// Keep implements logs.Sink.
func (p push) Keep() int64 {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.r.logsKeep
}

// Append implements logs.Sink. If the nodes store no logs, it returns that no attempt exists, so that the
// shipper sends nothing.
func (p push) Append(ctx context.Context, chunks []logs.Chunk) ([]int64, error) {
	c, err := p.r.s.Caller()
	if err != nil {
		return nil, err
	}
	if !c.Logs {
		ends := make([]int64, len(chunks))
		for i := range ends {
			ends[i] = -1
		}
		return ends, nil
	}
	in := &workerv1.PushLogsRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID}
	for i := range chunks {
		k := &chunks[i]
		in.Chunks = append(in.Chunks, &workerv1.LogChunk{Attempt: &workerv1.Attempt{Run: k.Run.String(), Task: int32(k.Task), Token: int64(k.Token)},
			Namespace: k.Namespace, Workflow: k.Workflow, Task: k.Name, Offset: k.Offset, Cut: k.Cut, Data: k.Data})
	}
	out, err := c.Home.PushLogs(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(out.Ends) != len(chunks) {
		return nil, errors.New("the home node has answered about other logs than the worker has sent")
	}
	return out.Ends, nil
}

// logOf names the log of an attempt.
func logOf(a *entry) (logs.Ref, bool) {
	k := &a.Of.key
	run, err := dag.ParseRunID(k.RunID)
	return logs.Ref{Namespace: k.Namespace, Workflow: k.Workflow, Run: run, Task: dag.TaskID(k.Ref), Name: k.Task, Token: dag.Token(k.Attempt)}, err == nil
}
