package remote

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/session"
)

// inputs reads the files that an attempt gets from other attempts. It requests them from the present home,
// which finds them on any node. If the home is lost, inputs continues at the next home from the same byte.
type inputs struct {
	r *Worker
	a *workerv1.Attempt
}

var _ worker.InputSource = (*inputs)(nil)

// List implements worker.InputSource.
func (i *inputs) List(ctx context.Context) (list []worker.Input, err error) {
	err = i.ask(ctx, func(ctx context.Context, c session.Caller) error {
		out, err := c.Home.ListInputs(ctx, &workerv1.ListInputsRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID, Attempt: i.a})
		for n, f := range out.GetInputs() {
			list = append(list, worker.Input{Index: n, Info: artifact.Info{Name: f.GetName(), Size: f.GetSize(), SHA256: f.GetSha256()}})
		}
		return err
	})
	return list, err
}

// Read implements worker.InputSource.
func (i *inputs) Read(ctx context.Context, in *worker.Input, offset int64) (data []byte, err error) {
	err = i.ask(ctx, func(ctx context.Context, c session.Caller) error {
		out, err := c.Home.GetInput(ctx, &workerv1.GetInputRequest{Handler: c.Handler, Lease: c.Lease, Uuid: c.UUID, Attempt: i.a, Index: int32(in.Index), Offset: offset})
		data = out.GetData()
		return err
	})
	return data, err
}

// ask sends a request to the home. If a retry may help, the error wraps artifact.ErrLater or
// artifact.ErrAway.
func (i *inputs) ask(ctx context.Context, call func(context.Context, session.Caller) error) error {
	c, err := i.r.s.Caller()
	if err != nil {
		return fmt.Errorf("%w: %w", artifact.ErrLater, err)
	}
	try, cancel := context.WithTimeout(ctx, putMax)
	defer cancel()
	err = call(try, c)
	switch why := session.Reason(err); {
	case err == nil:
		return nil
	case why == session.NoInput:
		return errors.New(text(err))
	case why == session.Away:
		return fmt.Errorf("%w: %s", artifact.ErrAway, text(err))
	case why == session.Stale, why == session.Malformed, connect.CodeOf(err) == connect.CodeUnimplemented:
		return err
	}
	return fmt.Errorf("%w: %w", artifact.ErrLater, err)
}

// text returns the message of a rejection without the reason.
func text(err error) string {
	var e *connect.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	_, text, _ := strings.Cut(e.Message(), ": ")
	return text
}
