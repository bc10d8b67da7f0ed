package source

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store/postgres/pgtest"
)

var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m, &server, pgtest.Options{NoSync: true})) }

// ledger accepts batches as the engine does: the cursor must match, and each key fires once.
type ledger struct {
	mu     sync.Mutex
	cursor []byte
	fired  map[string]int
	values []string // values of the fired events, in their order
	unread []string // reasons of events that cannot be used
	again  int      // events that had fired before
	taken  chan struct{}
	// before and after are called before and after the transaction, if they are not nil. The source gets
	// their errors.
	before, after func(n int) error
	n             int
}

func newLedger() *ledger { return &ledger{fired: map[string]int{}, taken: make(chan struct{}, 10_000)} }

var errDied = errors.New("the owner died")

func (l *ledger) give(_ context.Context, b Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if l.before != nil {
		if err := l.before(l.n); err != nil {
			return err
		}
	}
	size := 0
	for i := range b.Events {
		size += len(b.Events[i].Key) + len(b.Events[i].Value) + len(b.Events[i].Reason)
	}
	switch {
	case !bytes.Equal(b.After, l.cursor) || (b.After == nil) != (l.cursor == nil):
		return engine.ErrStale
	case len(b.Events) > engine.BatchEventsMax, size > engine.BatchBytesMax, len(b.Cursor) > engine.CursorBytesMax:
		return errors.New("the batch is too large")
	}
	l.cursor = bytes.Clone(b.Cursor)
	for i := range b.Events {
		e := &b.Events[i]
		switch l.fired[e.Key]++; {
		case l.fired[e.Key] > 1:
			l.again++
		case e.Value == nil:
			l.unread = append(l.unread, e.Reason)
		default:
			l.values = append(l.values, string(e.Value))
		}
	}
	l.taken <- struct{}{}
	if l.after != nil {
		return l.after(l.n)
	}
	return nil
}

// dies lets the owner die before some transactions, and after others.
func (l *ledger) dies() {
	l.before = func(n int) error {
		if n%3 == 1 && n > 1 {
			return errDied
		}
		return nil
	}
	l.after = func(n int) error {
		if n%3 == 2 {
			return errDied
		}
		return nil
	}
}

func (l *ledger) got() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.values)
}

// until waits until a condition holds after a batch.
func (l *ledger) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	for {
		l.mu.Lock()
		ok := holds()
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-l.taken:
		case <-limit:
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("%s: %d values, unread %.10q", what, len(l.values), l.unread)
		}
	}
}

// running runs a source. After each simulated death of the owner, it starts the source again at the stored
// cursor.
func (l *ledger) running(t *testing.T, open func() Source) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for {
			l.mu.Lock()
			from := l.cursor
			l.mu.Unlock()
			err := open().Run(ctx, from, l.give)
			if !errors.Is(err, errDied) && !errors.Is(err, engine.ErrStale) {
				done <- err
				return
			}
		}
	}()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// local returns a transport that may reach this machine.
func local(context.Context) (http.RoundTripper, error) {
	return egress.Transport(egress.Rules{Policies: []string{"127.0.0.0/8"}})
}

func plainDial() connection.Dial { return new(net.Dialer).DialContext }
