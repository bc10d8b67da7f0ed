package home

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"connectrpc.com/connect"

	"skein.dev/skein/internal/dag"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/api/worker/v1/workerv1connect"
)

// The build fails if the protocol and the domain have different values of TokensOfEra.
var _ [workerv1.TokensOfEra]struct{} = [dag.TokensOfEra]struct{}{}

// Reason is the reason why a worker's call was rejected. The text of a rejection begins with it.
type Reason int

// Reasons.
const (
	Unreadable  Reason = iota // the call cannot be decoded or is too large; the answer has only a code
	Malformed                 // the call was parsed, and is invalid
	NameTaken                 // a node or a younger worker has that name
	NotAttached               // the worker must register
	Fenced                    // the cluster has declared this handler of the worker dead
	Forged                    // another worker holds the attempt
	Stale                     // the worker no longer holds the attempt
	RunEnded
	NoLogs
	TooMuch    // the artifacts exceed their bounds
	Corrupt    // a file differs from its declared size or hash
	Incomplete // the files that were sent are not those of the list
	NoInput    // an input of the attempt does not exist
	Away       // no listed member has the input now
	Final      // another list of files was stored before
	Busy       // too many workers register at the same time
	NameHeld   // a listed worker has that name
	TooMany    // there are too many workers, or too many slots of one worker
	reasons
)

var reasonNames = [reasons]string{"UNREADABLE", "MALFORMED", "NAME_TAKEN", "NOT_ATTACHED", "FENCED", "FORGED", "STALE", "RUN_ENDED", "NO_LOGS",
	"TOO_MUCH", "CORRUPT", "INCOMPLETE", "NO_INPUT", "AWAY", "FINAL", "BUSY", "NAME_HELD", "TOO_MANY"}

// Reasons lists all reasons.
func Reasons() []Reason {
	all := make([]Reason, reasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

func (r Reason) String() string { return reasonNames[r] }

// Stats counts messages of workers, and their calls that were refused.
type Stats struct {
	Registered, Delivered, Held, Lost atomic.Int64
	// Unserved is the number of placements of ready tasks that no member may run. It is the only figure that
	// can fall.
	Unserved atomic.Int64

	rejected [reasons]atomic.Int64
}

// Rejected returns the number of rejections for a reason.
func (s *Stats) Rejected(r Reason) int64 { return s.rejected[r].Load() }

// no counts a rejection and returns it.
func (h *Home) no(code connect.Code, why Reason, format string, args ...any) error {
	h.Stats.rejected[why].Add(1)
	text := fmt.Sprintf(format, args...)
	if why == Forged || why == Malformed {
		h.log.Warn("a call of a worker was rejected", "code", "worker_call_rejected", "reason", why.String(), "text", text)
	}
	return named(code, why.String(), text)
}

func named(code connect.Code, reason, text string) error {
	return connect.NewError(code, fmt.Errorf("%s: %s", reason, text))
}

func (h *Home) malformed(format string, args ...any) error {
	return h.no(connect.CodeInvalidArgument, Malformed, format, args...)
}

// caller is the part of every call but Register that identifies the caller.
type caller interface {
	GetHandler() int64
	GetLease() int64
	GetUuid() string
}

// attached finds the calling worker. The caller must hold h.mu.
func (h *Home) attached(in caller) (*worker, error) {
	w := h.workers[dag.HandlerID(in.GetHandler())]
	switch {
	case w == nil || w.member.Lease != in.GetLease():
		return nil, h.no(connect.CodeFailedPrecondition, NotAttached, "handler %d is not attached here under lease %d; register", in.GetHandler(), in.GetLease())
	case w.member.UUID != in.GetUuid(): // handlers and leases are small numbers that are easily guessed, so the uuid must match
		return nil, h.no(connect.CodePermissionDenied, Forged, "handler %d is another worker's: the uuid is not that of its life", in.GetHandler())
	}
	return w, nil
}

// find does the same as attached, for callers that do not hold h.mu.
func (h *Home) find(in caller) (*worker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attached(in)
}

// reached is set in the context of a request once the request was parsed.
type reached struct{}

// compressMin is the size from which an answer is compressed. For most answers to polls, the processor time
// would cost more than the bandwidth.
const compressMin = 256 << 10

// Handler answers workers.
func Handler(h *Home) http.Handler {
	note := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			if was, ok := ctx.Value(reached{}).(*bool); ok {
				*was = true
			}
			if in, is := asCaller(req.Any()); is {
				if err := h.speaks(ctx, in); err != nil {
					return nil, err
				}
			}
			return next(ctx, req)
		}
	})
	_, handler := workerv1connect.NewWorkersHandler(&desk{h}, connect.WithReadMaxBytes(CallBytesMax), connect.WithInterceptors(note),
		connect.WithCompressMinBytes(compressMin))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == LinePath {
			h.lines.Serve(w, r, h.overLine)
			return
		}
		read := false
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), reached{}, &read)))
		if !read && r.Context().Err() == nil {
			h.Stats.rejected[Unreadable].Add(1)
		}
	})
}
