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
	// ErrImpossible means that a schedule is well formed, but never fires.
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
	Hint   string // the remedy, or ""

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

// Unwrap returns the kind: [ErrBad], [ErrImpossible] or [ErrReboot].
func (e *Error) Unwrap() error { return e.kind }

// clip shortens a text, so that a message stays readable.
func clip(s string) string {
	const max = 80
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}

// bad returns an Error of kind ErrBad without a position.
func bad(field, expr, reason, hint string) *Error {
	return &Error{Expr: expr, Field: field, Reason: reason, Hint: hint, kind: ErrBad}
}
