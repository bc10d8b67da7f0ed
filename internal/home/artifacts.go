package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"sync"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/artifact"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

const (
	// pieceMax bounds the piece of a file in one call, in bytes.
	pieceMax = 1 << 20
	// filesMax bounds the list of files of an attempt.
	filesMax = 10_000
)

// upload is the transfer of an attempt's files to this node. Its state is only in memory. After a restart,
// the node asks for the files again.
type upload struct {
	mu   sync.Mutex // held while a piece is written; protects following fields
	in   *artifact.Intake
	over bool
}

// end deletes all files of an upload that were not stored.
func (u *upload) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.endLocked()
}

func (u *upload) endLocked() {
	if !u.over {
		u.over = true
		u.in.Discard()
	}
}

// endUpload ends the upload of an attempt after its last piece. The caller holds h.mu.
func (w *worker) endUpload(k key) {
	if u := w.uploads[k]; u != nil {
		delete(w.uploads, k)
		go u.end() // a piece may still be being written to the disk
	}
}

// PutArtifact implements the protocol.
func (d *desk) PutArtifact(ctx context.Context, in *workerv1.PutArtifactRequest) (*workerv1.PutArtifactResponse, error) {
	h := d.h
	w, k, ref, err := h.depositor(ctx, in, in.Attempt)
	if err != nil {
		return nil, err
	}
	if in.Artifact == nil || in.Index < 0 || in.Offset < 0 || len(in.Data) > pieceMax {
		return nil, h.malformed("a piece of %d bytes of file %d from %d: send a file, and at most %d bytes", len(in.Data), in.Index, in.Offset, pieceMax)
	}
	u, err := h.upload(ctx, w, k, ref)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return nil, h.stale(k)
	}
	index, offset := u.in.Next()
	if int(in.Index) == index && in.Offset == offset {
		if err := u.in.Put(ctx, infoOf(in.Artifact), in.Data); err != nil {
			u.endLocked()
			h.mu.Lock()
			delete(w.uploads, k)
			h.mu.Unlock()
			return nil, h.notKept(err)
		}
		index, offset = u.in.Next()
	}
	return &workerv1.PutArtifactResponse{Index: int32(index), Offset: offset}, nil
}

// KeepArtifacts implements the protocol.
func (d *desk) KeepArtifacts(ctx context.Context, in *workerv1.KeepArtifactsRequest) (*workerv1.KeepArtifactsResponse, error) {
	h := d.h
	w, k, ref, err := h.depositor(ctx, in, in.Attempt)
	if err != nil {
		return nil, err
	}
	if len(in.Artifacts) > filesMax {
		return nil, h.malformed("%d artifacts are too many: send at most %d", len(in.Artifacts), filesMax)
	}
	list := make([]artifact.Info, len(in.Artifacts))
	for i, a := range in.Artifacts {
		if a == nil {
			return nil, h.malformed("artifact %d is none", i)
		}
		list[i] = infoOf(a)
	}
	h.mu.Lock()
	u := w.uploads[k]
	h.mu.Unlock()
	if u == nil {
		if done, err := h.keptBefore(ctx, ref, list); done || len(list) > 0 {
			return &workerv1.KeepArtifactsResponse{}, err
		}
		if u, err = h.upload(ctx, w, k, ref); err != nil { // an empty list is kept, too
			return nil, err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over { // an earlier call has ended the upload, although its caller did not wait
		_, err := h.keptBefore(ctx, ref, list)
		return &workerv1.KeepArtifactsResponse{}, err
	}
	err = u.in.Commit(list)
	u.endLocked()
	h.mu.Lock()
	delete(w.uploads, k)
	h.mu.Unlock()
	if err != nil {
		return nil, h.notKept(err)
	}
	return &workerv1.KeepArtifactsResponse{}, nil
}

// keptBefore reports whether an earlier call, whose answer was lost, has stored the files. Its error is the
// answer to the worker: other files were stored, or none were.
func (h *Home) keptBefore(ctx context.Context, ref artifact.Ref, list []artifact.Info) (bool, error) {
	kept, err := h.cfg.Artifacts.Store.List(ctx, ref)
	list = slices.Clone(list)
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	switch {
	case err == nil && slices.Equal(kept, list):
		return true, nil
	case err == nil:
		return true, h.notKept(artifact.ErrFinal)
	case !errors.Is(err, fs.ErrNotExist):
		return true, h.notKept(err) // the store does not answer
	}
	return false, h.notKept(artifact.ErrIncomplete)
}

// depositor finds the calling worker, and the place where the artifacts of one of its attempts are stored. It
// uses the attempt as this home knows it, and ignores what the worker says about it.
func (h *Home) depositor(ctx context.Context, in caller, a *workerv1.Attempt) (*worker, key, artifact.Ref, error) {
	var ref artifact.Ref
	w, err := h.find(in)
	if err != nil {
		return nil, key{}, ref, err
	}
	k, err := keyOfWire(a)
	if err != nil {
		return nil, k, ref, h.malformed("%v", err)
	}
	if _, err := h.affirm(ctx, w, k); err != nil {
		return nil, k, ref, err
	}
	n, own, err := h.named(ctx, w, k)
	switch {
	case err != nil:
		return nil, k, ref, connect.NewError(connect.CodeUnavailable, err)
	case !own:
		return nil, k, ref, h.stale(k)
	case !n.Artifacts:
		return nil, k, ref, h.no(connect.CodeFailedPrecondition, Stale, "task %s of %s/%s keeps no artifacts", n.Task, n.Namespace, n.Workflow)
	}
	return w, k, artifact.Ref{Run: artifact.Run{Namespace: n.Namespace, Workflow: n.Workflow, ID: k.run.String()}, Task: n.Task, Attempt: int(k.token)}, nil
}

// upload returns the upload of an attempt. It makes one if there is none.
func (h *Home) upload(ctx context.Context, w *worker, k key, ref artifact.Ref) (*upload, error) {
	h.mu.Lock()
	u := w.uploads[k]
	h.mu.Unlock()
	if u != nil {
		return u, nil
	}
	in, err := h.cfg.Artifacts.Begin(ctx, ref)
	if err != nil {
		return nil, h.notKept(err)
	}
	fresh := &upload{in: in}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch u := w.uploads[k]; {
	case w.out == nil || w.running[k] == nil: // the worker is no longer attached, or the attempt has ended
		go fresh.end()
		return nil, h.stale(k)
	case u != nil: // another goroutine has made the upload meanwhile
		go fresh.end()
		return u, nil
	}
	w.uploads[k] = fresh
	return fresh, nil
}

// notKept returns the reason why files were not stored.
func (h *Home) notKept(err error) error {
	var bound *artifact.BoundError
	switch {
	case errors.As(err, &bound):
		return h.no(connect.CodeResourceExhausted, TooMuch, "%v", err)
	case errors.Is(err, artifact.ErrCorrupt):
		return h.no(connect.CodeDataLoss, Corrupt, "%v", err)
	case errors.Is(err, artifact.ErrFinal):
		return h.no(connect.CodeAlreadyExists, Final, "%v", err)
	case errors.Is(err, artifact.ErrIncomplete):
		return h.no(connect.CodeFailedPrecondition, Incomplete, "%v than are to be kept; begin again", err)
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("artifacts cannot be kept here now: %w", err))
}

func infoOf(a *workerv1.Artifact) artifact.Info {
	return artifact.Info{Name: a.GetName(), Size: a.GetSize(), SHA256: a.GetSha256()}
}
