package cron

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of [Error], for errors.Is.
var (
	// ErrBad means that a text or a value is invalid.
	ErrBad = errors.New("bad schedule")
	// ErrImpossible is a schedule that is well formed and never fires.
	ErrImpossible = errors.New("schedule that never fires")
	// ErrReboot is @reboot, which is an event and not a time. The caller has to handle it.
	ErrReboot = errors.New("@reboot is not a time")
)

// Error describes a mistake in a schedule: what is wrong, its position, and the correction.
type Error struct {
	Expr   string // the given text
	Field  string // "minute", "day of month", "zone", …; "" for the whole
	Pos    int    // offset in Expr, bytes, from 0
	Reason string
	Hint   string // the remedy; may be empty

	kind error
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Expr != "" {
		fmt.Fprintf(&b, "%q", clip(e.Expr))
		if e.Pos > 0 {
			fmt.Fprintf(&b, " at %d", e.Pos+1)
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Reason)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap gives the kind: [ErrBad], [ErrImpossible] or [ErrReboot].
func (e *Error) Unwrap() error { return e.kind }

// clip keeps a message readable if a long text was pasted into the expression.
func clip(s string) string {
	const max = 80
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}

// bad is an Error of kind ErrBad without a position.
func bad(field, expr, reason, hint string) *Error {
	return &Error{Expr: expr, Field: field, Reason: reason, Hint: hint, kind: ErrBad}
}
