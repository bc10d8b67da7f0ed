package home

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/artifact"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// ListInputs implements the protocol. The inputs of an attempt are computed from the run, and are equal on
// every node. So another home can continue a transfer.
func (d *desk) ListInputs(ctx context.Context, in *workerv1.ListInputsRequest) (*workerv1.ListInputsResponse, error) {
	h := d.h
	list, err := h.inputs(ctx, in, in.Attempt)
	if err != nil {
		return nil, err
	}
	out := &workerv1.ListInputsResponse{Inputs: make([]*workerv1.Artifact, len(list))}
	for i := range list {
		out.Inputs[i] = &workerv1.Artifact{Name: list[i].At, Size: list[i].Size, Sha256: list[i].SHA256}
	}
	return out, nil
}

// GetInput implements the protocol.
func (d *desk) GetInput(ctx context.Context, in *workerv1.GetInputRequest) (*workerv1.GetInputResponse, error) {
	h := d.h
	list, err := h.inputs(ctx, in, in.Attempt)
	switch {
	case err != nil:
		return nil, err
	case in.Index < 0 || int(in.Index) >= len(list) || in.Offset < 0:
		return nil, h.malformed("file %d from %d: there are %d files", in.Index, in.Offset, len(list))
	}
	data, err := h.cfg.Jobs.ReadInput(ctx, &list[in.Index], in.Offset)
	if err != nil {
		return nil, h.noInput(err)
	}
	return &workerv1.GetInputResponse{Data: data}, nil
}

// inputs finds the calling worker, and the inputs of one of its attempts.
func (h *Home) inputs(ctx context.Context, in caller, a *workerv1.Attempt) ([]artifact.Input, error) {
	w, err := h.find(in)
	if err != nil {
		return nil, err
	}
	k, err := keyOfWire(a)
	if err != nil {
		return nil, h.malformed("%v", err)
	}
	if _, err := h.affirm(ctx, w, k); err != nil {
		return nil, err
	}
	h.mu.Lock()
	list := w.inputs[k]
	h.mu.Unlock()
	if list != nil {
		return list, nil
	}
	if list, err = h.cfg.Jobs.Inputs(ctx, k.run, k.task); err != nil {
		return nil, h.noInput(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.running[k] != nil && list != nil {
		w.inputs[k] = list
	}
	return list, nil
}

// noInput returns the reason why there is no input.
func (h *Home) noInput(err error) error {
	if no := (*artifact.NoInputError)(nil); errors.As(err, &no) {
		return h.no(connect.CodeFailedPrecondition, NoInput, "%v", no)
	}
	if errors.Is(err, artifact.ErrAway) {
		return h.no(connect.CodeUnavailable, Away, "%v", err)
	}
	return connect.NewError(connect.CodeUnavailable, err)
}
