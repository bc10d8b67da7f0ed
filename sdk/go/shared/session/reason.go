package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
)

// Reasons of rejections.
const (
	Fenced     = "FENCED"
	NameTaken  = "NAME_TAKEN"
	NameHeld   = "NAME_HELD"
	TooMany    = "TOO_MANY"
	Alone      = "ALONE"
	Malformed  = "MALFORMED"
	Stale      = "STALE"
	RunEnded   = "RUN_ENDED"
	TooMuch    = "TOO_MUCH"
	Corrupt    = "CORRUPT"
	Incomplete = "INCOMPLETE"
	NoInput    = "NO_INPUT"
	Away       = "AWAY"
	Final      = "FINAL"
)

// Reason returns the named code of a rejection. It returns "" for other errors.
func Reason(err error) string {
	var e *connect.Error
	if !errors.As(err, &e) {
		return ""
	}
	name, _, _ := strings.Cut(e.Message(), ":")
	return name
}

const (
	PauseMin = 50 * time.Millisecond
	PauseMax = 2 * time.Second
	// RegisterMax bounds a call that begins or ends an attachment.
	RegisterMax = 3 * time.Second
	// CallMax bounds a report.
	CallMax = 10 * time.Second
	// lostPause is the pause before a worker that has lost its home registers again.
	lostPause = 200 * time.Millisecond
	// comeAgainMax bounds the pause that a node may request. It is far less than a lease.
	comeAgainMax = 5 * time.Second
	// answerBytesMax bounds the bytes of one answer of a node.
	answerBytesMax = 64 << 20
)

// comeAgain returns the pause that a busy node requests. It returns 0 for other errors.
func comeAgain(err error) time.Duration {
	var is *connect.Error
	if !errors.As(err, &is) {
		return 0
	}
	seconds, err := strconv.Atoi(is.Meta().Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, comeAgainMax)
}

// Wait waits for about d, or until ctx ends. The length is random, because other workers wait, too.
func Wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d/2 + rand.N(d)):
	}
}

// LeaseOf returns how long attempts may run after the last answer of a node. A node may declare the worker
// dead when the lag has passed since the last renewal of the worker's row. That renewal may be up to a
// heartbeat older than the answer, and a heartbeat is at most a quarter of the lag.
func LeaseOf(lag time.Duration) time.Duration { return lag * 3 / 4 }
