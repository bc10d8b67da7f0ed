package home

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// Proof holds what a worker has proven with its certificate: its name, and the bounds of its invitation.
type Proof struct {
	Worker             string
	Groups, Namespaces []string // no namespaces means all
	Slots              int32    // 0 means no bound
}

// Proofs says what callers have proven. If its functions are nil, no caller shows a certificate.
type Proofs struct {
	// Of returns the proof of a call. ok is false if the caller has shown a token instead.
	Of func(ctx context.Context) (is Proof, ok bool)
	// Needed reports whether a worker has a certificate. If it has one, a caller that has only a token may
	// not call for this worker.
	Needed func(ctx context.Context, worker string) (bool, error)
}

func proofOf(ctx context.Context, h *Home) (is Proof, ok bool) {
	if h.cfg.Proofs.Of == nil {
		return is, false
	}
	return h.cfg.Proofs.Of(ctx)
}

// within returns an error for a registration that goes beyond the certificate of its caller. Otherwise it
// sets the namespaces of the worker to those of the certificate.
func within(ctx context.Context, h *Home, m *store.Member) (proven bool, err error) {
	is, proven := proofOf(ctx, h)
	if !proven {
		return false, tokenFits(ctx, h, m.Name)
	}
	switch {
	case is.Worker != m.Name:
		return true, h.no(connect.CodePermissionDenied, Forged, "the certificate is of the worker %s, and the registration is of %s; start the worker with --name %s", is.Worker, m.Name, is.Worker)
	case is.Slots > 0 && m.Slots > is.Slots:
		return true, h.malformed("worker %s has %d slots, and its certificate allows %d; start it with --slots %d, or invite it with more", m.Name, m.Slots, is.Slots, is.Slots)
	}
	for _, g := range m.Traits.Groups {
		if !slices.Contains(is.Groups, g) {
			allowed := strings.Join(is.Groups, ", ")
			if allowed == "" {
				allowed = "none"
			}
			return true, h.malformed("worker %s says that it belongs to the group %s, and its certificate allows: %s; start it with another --group, or invite it with --group %s", m.Name, g, allowed, g)
		}
	}
	m.Traits.Namespaces = is.Namespaces
	return true, nil
}

// tokenFits returns an error for a registration by token under the name of a worker that has a certificate.
func tokenFits(ctx context.Context, h *Home, name string) error {
	if h.cfg.Proofs.Needed == nil {
		return nil
	}
	needed, err := h.cfg.Proofs.Needed(ctx, name)
	switch {
	case err != nil:
		return connect.NewError(connect.CodeUnavailable, err)
	case needed:
		return h.no(connect.CodePermissionDenied, Forged, "the worker %s has a certificate, so no token speaks for it; start it over the data folder in which it has joined, give it another --name, or revoke the certificate: skein worker revoke %s", name, name)
	}
	return nil
}

// speaks returns an error for a call about a worker if the caller has another certificate. It also returns
// one if the caller has only a token, although the worker has registered with a certificate.
func (h *Home) speaks(ctx context.Context, in caller) error {
	is, proven := proofOf(ctx, h)
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[dag.HandlerID(in.GetHandler())]
	switch {
	case w == nil: // attached refuses it
		return nil
	case proven && w.member.Name != is.Worker:
		return h.no(connect.CodePermissionDenied, Forged, "the certificate is of the worker %s, and handler %d is another worker's", is.Worker, in.GetHandler())
	case !proven && w.proven:
		return h.no(connect.CodePermissionDenied, Forged, "handler %d has registered with a certificate, so no token speaks for it", in.GetHandler())
	}
	return nil
}

// spaces reports whether a worker may run a task of a namespace.
func (w *worker) spaces(namespace string) bool {
	only := w.member.Traits.Namespaces
	return len(only) == 0 || slices.Contains(only, namespace)
}

// asCaller returns the part of a message that identifies its caller. A registration has no such part.
func asCaller(message any) (caller, bool) {
	if _, registers := message.(*workerv1.RegisterRequest); registers {
		return nil, false
	}
	in, ok := message.(caller)
	return in, ok
}
