package stream

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"skein.dev/skein/internal/feed"
)

// Log is a log whose messages keep their positions after they are read. Only one goroutine calls its methods.
type Log interface {
	// Restore moves to a stored position. It returns an error if the position is not one of this log.
	Restore(raw json.RawMessage) error
	// Begin moves to the first message since an instant. The zero time stands for the oldest message.
	Begin(ctx context.Context, since time.Time) error
	// Cursor returns the position after the last added message, in the form to store.
	Cursor() any
	// Look compares the position with the log. It moves the position past lost messages, and reports their
	// number with Lines.Lost.
	Look(ctx context.Context, lines *Lines) error
	// Lag returns the number of messages after the position at the last look, or nil if it is unknown.
	Lag() *int64
	// Read waits for messages and adds some. It may return without any, for example when ctx ends.
	Read(ctx context.Context, lines *Lines) error
}

// lookEvery is the interval between two looks at a log.
const lookEvery = 10 * time.Second

// outageMax bounds how long a broker that has answered before may be silent. After that, the source ends with
// the code Away.
const outageMax = 30 * time.Second

// errCursor says that another source wrote the stored cursor.
var errCursor = errors.New("the stored cursor was not written by this source; move it with: skein schedule seek WORKFLOW/TRIGGER --to now")

// Follow reads a log from the stored position. It returns nil when ctx has ended, or an error if it cannot
// continue.
func Follow(ctx context.Context, f *feed.Feed, log Log) error {
	lines := &Lines{feed: f, cursor: log.Cursor, lag: log.Lag}
	err := begin(ctx, &f.Start, log, lines)
	if err == nil {
		err = follow(ctx, log, lines)
	}
	return ended(ctx, err)
}

// begin moves to the stored position. If there is none, it moves to the first one and stores it.
func begin(ctx context.Context, start *feed.Start, log Log, lines *Lines) error {
	at, moved := instant(start.Cursor)
	switch {
	case len(start.Cursor) > 0 && !moved:
		if log.Restore(start.Cursor) != nil {
			return &feed.Error{Code: feed.Permanent, Err: errCursor}
		}
		return nil
	case !moved && start.From != "beginning":
		at = start.Since
	}
	if err := log.Begin(ctx, at); err != nil {
		return err
	}
	lines.Moved()
	return lines.Flush()
}

func follow(ctx context.Context, log Log, lines *Lines) error {
	var looked time.Time // zero until a look has succeeded
	for ctx.Err() == nil {
		next := lookEvery
		err := log.Look(ctx, lines)
		var final *feed.Error
		switch {
		case err == nil:
			looked = time.Now()
			if err := lines.alive(); err != nil {
				return err
			}
		case errors.As(err, &final) || looked.IsZero() || time.Since(looked) > outageMax:
			return err
		default: // the broker may be restarting, and the client continues by itself
			next = time.Second
		}
		if err := read(ctx, log, lines, next); err != nil {
			return err
		}
	}
	return nil
}

// read gives messages to the node for a span of time.
func read(ctx context.Context, log Log, lines *Lines, span time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	for ctx.Err() == nil {
		err := log.Read(ctx, lines)
		look := errors.Is(err, ErrLook)
		if err == nil || look {
			err = lines.Flush()
		}
		if err != nil || look {
			return err
		}
	}
	return nil
}

// ErrLook is returned by Log.Read. It means that the next look will find the cause.
var ErrLook = errors.New("look at the log")

// Pause waits for a second, so that a broker with contradictory answers is not asked all the time. It returns
// ErrLook, or nil if ctx has ended.
func Pause(ctx context.Context) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-timer.C:
		return ErrLook
	}
}
