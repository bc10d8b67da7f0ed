package skein

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

// The kinds of error, for errors.Is. The full answer of the server is in an [*Error].
var (
	ErrNotFound    = errors.New("not found")
	ErrInvalid     = errors.New("invalid")
	ErrConflict    = errors.New("conflict")
	ErrNotAllowed  = errors.New("not allowed")
	ErrBusy        = errors.New("busy")
	ErrUnavailable = errors.New("unavailable")
	// ErrUnreachable means that no server answered, or that the answer broke off. A POST without an
	// idempotency key may or may not have had an effect.
	ErrUnreachable = errors.New("unreachable")
	// ErrSpeaksTLS wraps ErrUnreachable. The address begins with http://, but the server there uses TLS.
	ErrSpeaksTLS = fmt.Errorf("%w: the server speaks TLS, but its address begins with http://", ErrUnreachable)
)

// Error is an error answer of the server.
type Error struct {
	Problem    api.Problem
	RetryAfter time.Duration // 0 if the server names no time
}

// Error returns the error text of the server.
func (e *Error) Error() string { return e.Problem.Error() }

// Code returns the stable code of the refusal, such as "not_found" or "idempotency_conflict". Programs
// compare the code instead of the text. The code is "" if a proxy answered instead of a Skein server.
func (e *Error) Code() string {
	if e.Problem.Code != "" {
		return e.Problem.Code
	}
	return api.CodeOf(e.Problem.Type) // earlier servers send no codes
}

// Unwrap returns the problem, so that errors.As finds it.
func (e *Error) Unwrap() error { return &e.Problem }

// Is compares with the kinds of error.
func (e *Error) Is(target error) bool { return target == e.kind() }

func (e *Error) kind() error {
	switch s := e.Problem.Status; {
	case s == http.StatusNotFound:
		return ErrNotFound
	case s == http.StatusConflict || s == http.StatusPreconditionFailed:
		return ErrConflict
	case s == http.StatusUnauthorized || s == http.StatusForbidden || s == http.StatusMisdirectedRequest:
		return ErrNotAllowed
	case s == http.StatusTooManyRequests:
		return ErrBusy
	case s >= 500:
		return ErrUnavailable
	}
	return ErrInvalid
}

func unreachable(url string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, url, err)
}
