package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible ends the context at the first Ctrl-C or TERM. stop gives the signals back.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// signals gives every Ctrl-C and TERM, one by one.
func signals() (ch chan os.Signal, stop func()) {
	ch = make(chan os.Signal, 4) // an impatient person's
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return ch, func() { signal.Stop(ch) }
}
