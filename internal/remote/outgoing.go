package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

const (
	// outgoingName is the folder in the data folder for artifacts that no home has stored yet.
	outgoingName = "outgoing"
	// bringsMax bounds the number of attempts whose artifacts are sent at the same time.
	bringsMax = 4
	// pieceMax bounds the piece of a file in one call, in bytes.
	pieceMax = 1 << 20
	// putMax bounds the time of one call. The last call of a file waits for the disk, and KeepArtifacts waits
	// for all files.
	putMax = time.Minute
	// againMax bounds how often a transfer is repeated because the home has received other bytes.
	againMax = 5
	// fullMax bounds the pause between two attempts at a home whose disk is full.
	fullMax = 30 * time.Second
	// bringMax is the time for which artifacts are offered to homes that cannot take them.
	bringMax = time.Hour
)

// errEnded means that an attempt was stopped while its artifacts were being sent.
var errEnded = errors.New("the attempt was stopped while its artifacts were sent to its home node")

// artifactsOf identifies the artifacts of an attempt.
func artifactsOf(k *worker.Key) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: k.Namespace, Workflow: k.Workflow, ID: k.RunID}, Task: k.Task, Attempt: k.Attempt}
}

// bring sends the artifacts of a successful attempt to the home, and then reports the result.
func (r *Worker) bring(ctx context.Context, a *entry, res worker.Result) {
	select {
	case r.brings <- struct{}{}:
		defer func() { <-r.brings }()
	case <-ctx.Done():
	}
	err := r.deliver(ctx, a)
	switch {
	case err == nil:
	case errors.Is(err, errEnded):
		res.State, res.Cause, res.Message = worker.Stopped, r.stopCause(a), errEnded.Error()
	case ctx.Err() != nil:
		return // the keeper still has the end of the attempt, so the next process sends the files again
	default:
		res.State, res.Cause, res.Message = worker.Failed, worker.CauseArtifacts, err.Error()
	}
	if err := r.outgoing.Forget(artifactsOf(&a.Of.key)); err != nil {
		r.log.Warn("delivered artifacts cannot be removed from this machine", "code", "artifacts_left", "run", a.Wire.Run, "task", a.Task, "err", err)
	}
	r.s.Settle(a, resultOf(a.Wire, &res))
}

// deliver sends the artifacts until a home has stored them. Its errors are for people.
func (r *Worker) deliver(ctx context.Context, a *entry) error {
	list, err := r.outgoing.List(ctx, artifactsOf(&a.Of.key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the attempt has no files to keep
	}
	if err != nil {
		return fmt.Errorf("artifacts cannot be read: %w", err)
	}
	again := 0
	for pause, began := session.PauseMin, time.Now(); ; pause *= 2 {
		err := r.offer(ctx, a, list)
		switch why := session.Reason(err); {
		case err == nil, why == session.Stale, why == session.RunEnded: // the report of the attempt will get the same answer
			return nil
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case why == session.Malformed && len(list) == 0: // a home node of an earlier version rejects an empty list of files
			return nil
		case errors.Is(err, errLocal), why == session.TooMuch, why == session.Final:
			return err
		case why == session.Corrupt || why == session.Incomplete:
			if again++; again == againMax {
				return fmt.Errorf("its home node received other artifacts than were sent: %w", err)
			}
		case time.Since(began) > bringMax:
			return fmt.Errorf("no home node accepts the artifacts of this attempt: %w", err)
		}
		r.log.Debug("the home node does not take the artifacts yet", "run", a.Wire.Run, "task", a.Task, "err", err)
		limit := session.PauseMax
		if connect.CodeOf(err) == connect.CodeUnavailable { // the disk of the home is full: everything is sent again
			limit = fullMax
		}
		pause = min(pause, limit)
		session.Wait(ctx, pause)
	}
}

// errLocal means that this worker can no longer read an artifact.
var errLocal = errors.New("an artifact cannot be read")

// offer uploads all files to the present home node, each from the offset that the home requests, and makes
// the home store them.
func (r *Worker) offer(ctx context.Context, a *entry, list []artifact.Info) error {
	c, err := r.s.Caller()
	if err != nil {
		return err
	}
	wire := make([]*workerv1.Artifact, len(list))
	for i := range list {
		wire[i] = &workerv1.Artifact{Name: list[i].Name, Size: list[i].Size, Sha256: list[i].SHA256}
	}
	in := &workerv1.PutArtifactRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID, Attempt: a.Wire}
	var file pieces
	defer file.close()
	// Each call makes progress, unless the home has restarted. After a restart, at most all pieces are sent
	// again.
	calls := 2
	for i := range list {
		calls += 2 * int(list[i].Size/pieceMax+1)
	}
	for ; int(in.Index) < len(list); calls-- {
		if calls == 0 {
			return errors.New("the home node requests the same artifacts repeatedly")
		}
		info := &list[in.Index]
		data, err := file.read(ctx, r.outgoing, a, info, in.Offset)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", errLocal, info.Name, err)
		}
		in.Artifact, in.Data = wire[in.Index], data
		try, cancel := context.WithTimeout(ctx, putMax)
		out, err := c.Home.PutArtifact(try, in)
		cancel()
		if err != nil {
			return err
		}
		in.Index, in.Offset = max(out.Index, 0), max(out.Offset, 0)
	}
	try, cancel := context.WithTimeout(ctx, putMax)
	defer cancel()
	_, err = c.Home.KeepArtifacts(try, &workerv1.KeepArtifactsRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID, Attempt: a.Wire, Artifacts: wire})
	return err
}

// pieces reads files piece by piece with one buffer.
type pieces struct {
	name string
	file artifact.Reader
	buf  []byte
}

func (p *pieces) read(ctx context.Context, from artifact.Folder, a *entry, info *artifact.Info, offset int64) ([]byte, error) {
	if p.file == nil || p.name != info.Name {
		p.close()
		file, _, err := from.Open(ctx, artifactsOf(&a.Of.key), info.Name)
		if err != nil {
			return nil, err
		}
		p.name, p.file = info.Name, file
	}
	if p.buf == nil {
		p.buf = make([]byte, pieceMax)
	}
	n, err := p.file.ReadAt(p.buf[:max(0, min(pieceMax, info.Size-offset))], offset)
	if errors.Is(err, io.EOF) && offset+int64(n) == info.Size {
		err = nil
	}
	return p.buf[:n], err
}

func (p *pieces) close() {
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
}

// sweep removes files that wait for a home and belong to no attempt of this worker. A process that died has
// left them. sweep must be called before any attempt starts that is not adopted.
func (r *Worker) sweep() {
	here := map[string]bool{}
	for _, a := range r.s.All() {
		here[a.Wire.Run] = true
	}
	runs, _ := filepath.Glob(filepath.Join(r.outgoing.Path, "artifacts", "*", "*", "*")) // Glob fails only for a wrong pattern
	for _, at := range runs {
		if !here[filepath.Base(at)] {
			if err := os.RemoveAll(at); err != nil {
				r.log.Warn("artifacts that no node waits for cannot be removed", "code", "artifacts_left", "folder", at, "err", err)
			}
		}
	}
}
