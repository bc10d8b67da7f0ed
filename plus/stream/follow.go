package stream

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"skein.dev/skein/internal/feed"
)

// Log is a place whose messages keep their positions after they were read. Its methods are called by one
// goroutine.
type Log interface {
	// Restore goes to a stored position. An error says that the position is not one of this log.
	Restore(raw json.RawMessage) error
	// Begin goes to the first message since an instant; the zero time: to the oldest message.
	Begin(ctx context.Context, since time.Time) error
	// Cursor returns the stored form of the position, which is after the last message that was added.
	Cursor() any
	// Look compares the position with the log. It moves the position over messages that are gone, and says
	// how many with Lines.Lost.
	Look(ctx context.Context, lines *Lines) error
	// Lag returns how many messages were behind the position at the last look; nil: unknown.
	Lag() *int64
	// Read waits for messages until ctx ends, and adds some. It may return without any.
	Read(ctx context.Context, lines *Lines) error
}

// lookEvery is the time between two looks at a log.
const lookEvery = 10 * time.Second

// outageMax is the time for which a broker that has answered before may be silent. Then the source says that
// it is away.
const outageMax = 30 * time.Second

// errCursor says that the stored cursor is not one of this source.
var errCursor = errors.New("the stored cursor was not written by this source; move it with: skein schedule seek WORKFLOW/TRIGGER --to now")

// Follow reads a log from the stored position on. It returns nil when ctx has ended, and otherwise why it
// cannot read on.
func Follow(ctx context.Context, f *feed.Feed, log Log) error {
	lines := &Lines{feed: f, cursor: log.Cursor, lag: log.Lag}
	err := begin(ctx, &f.Start, log, lines)
	if err == nil {
		err = follow(ctx, log, lines)
	}
	return ended(ctx, err)
}

// begin goes to the stored position. If there is none, it stores the first one.
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
	var looked time.Time // the zero time: no look has succeeded yet
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
		default: // a broker starts again; the client reads on by itself
			next = time.Second
		}
		if err := read(ctx, log, lines, next); err != nil {
			return err
		}
	}
	return nil
}

// read gives messages for a time.
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

// ErrLook is an error of Log.Read that a look at the log explains.
var ErrLook = errors.New("look at the log")

// Pause waits for a second, so that a broker whose answers contradict each other is not asked all the time.
// It returns ErrLook, or nil if ctx has ended.
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
