package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interruptible returns a context that ends at the first Ctrl-C or TERM. Its cancel function restores the
// default handling of both signals.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// signals delivers each Ctrl-C and TERM, and each of the additional signals.
func signals(more ...os.Signal) (ch chan os.Signal, stop func()) {
	ch = make(chan os.Signal, 4) // a person may press Ctrl-C several times
	signal.Notify(ch, append([]os.Signal{os.Interrupt, syscall.SIGTERM}, more...)...)
	return ch, func() { signal.Stop(ch) }
}

// hangups delivers HUP. It drops a HUP that arrives while another one is waiting.
func hangups() (ch chan os.Signal, stop func()) {
	ch = make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGHUP)
	return ch, func() { signal.Stop(ch) }
}

// closedTerminal returns the signal of a closed terminal, for a program that ends with its terminal. It
// returns none under nohup, which ignores the signal.
func closedTerminal() []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	return []os.Signal{syscall.SIGHUP}
}
