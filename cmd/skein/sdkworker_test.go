package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	skein "skein.dev/skein/sdk"
)

// gated is the input of the kind gated. The task function writes a line to the file Begun, waits until the
// file Gate exists, and writes a line to the file Done.
type gated struct{ Begun, Gate, Done string }

// sdkWorker is the main of a program with a task function. Tests start it as a process: sdk-worker URL NAME.
func sdkWorker() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := skein.NewWorker(os.Args[1], skein.WorkerOptions{Name: os.Args[2], Slots: 4, Groups: []string{"gophers"}, Drain: 10 * time.Second})
	skein.Handle(w, "gated", func(ctx context.Context, t *skein.Task, in gated) (map[string]int, error) {
		if err := noteAttempt(in.Begun, t); err != nil {
			return nil, err
		}
		fmt.Fprintf(t, "attempt %d waits\n", t.Attempt)
		for {
			select {
			case <-ctx.Done():
				_ = noteAttempt(filepath.Join(filepath.Dir(in.Begun), "cancelled"), t)
				return nil, context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
			if _, err := os.Stat(in.Gate); err == nil {
				return map[string]int{"token": t.Token}, noteAttempt(in.Done, t)
			}
		}
	})
	if err := w.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// noteAttempt adds the attempt to a file.
func noteAttempt(path string, t *skein.Task) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d %d\n", t.Attempt, t.Token)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
