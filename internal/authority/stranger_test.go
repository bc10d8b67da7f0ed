package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// watched counts readings of the roots, and lets them fail if the test wants that.
type watched struct {
	Vault
	reads atomic.Int64
	err   error
	wait  func() // called before a reading
}

func (w *watched) Value(ctx context.Context, namespace, name string) ([]byte, int64, error) {
	w.reads.Add(1)
	if w.wait != nil {
		w.wait()
	}
	if err := errors.Join(ctx.Err(), w.err); err != nil {
		return nil, 0, err
	}
	return w.Vault.Value(ctx, namespace, name)
}

// strange returns a node that has read the roots, the vault that it reads, and the certificate of a stranger.
func (b *bed) strange() (a *Authority, v *watched, stranger []*x509.Certificate) {
	b.Helper()
	v = &watched{Vault: b.vault}
	a = New(Config{Vault: v, Now: b.node().cfg.Now})
	other := newBed(b.T)
	foreign := other.node()
	if err := errors.Join(a.Make(b.Context(), "ann"), foreign.Make(b.Context(), "eve")); err != nil {
		b.Fatal(err)
	}
	return a, v, other.worker(foreign, "w1")
}

// TestStranger: a stranger that shows its own certificate and hangs up changes nothing for other callers. A
// temporary outage of the database changes nothing for them, either.
func TestStranger(t *testing.T) {
	b := newBed(t)
	a, v, stranger := b.strange()
	own, err := a.Node("n1")
	if err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(lookAgain)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	was := v.reads.Load()
	if _, err := a.Verify(gone, stranger); !errors.As(err, new(*Refusal)) {
		t.Errorf("the stranger: %v", err)
	}
	if v.reads.Load() != was+1 || a.err != nil {
		t.Errorf("%d readings, %v", v.reads.Load()-was, a.err)
	}
	v.err = errors.New("the database is away")
	b.now = b.now.Add(lookAgain)
	b.refused(a, stranger, "did not issue the certificate")
	if err := a.Load(t.Context()); !errors.Is(err, v.err) {
		t.Error(err)
	}
	b.accepted(a, b.worker(a, "w1"), "w1")
	v.err = nil
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := a.Node("n1"); again != own || err != nil {
		t.Errorf("the node has another certificate: %v", err)
	}
}

// TestStrangers: strangers cost one reading a second, however many they are, and no long chain is verified.
func TestStrangers(t *testing.T) {
	b := newBed(t)
	a, v, stranger := b.strange()
	mine := b.worker(a, "w1")
	b.refused(a, append(mine, mine[1], mine[1], mine[1]), "has at most 4")
	b.now = b.now.Add(lookAgain)
	const many = 8
	var begun atomic.Int64
	v.wait = func() {
		for begun.Load() < many {
			runtime.Gosched()
		}
	}
	was := v.reads.Load()
	var wg sync.WaitGroup
	for range many {
		wg.Go(func() {
			begun.Add(1)
			_, _ = a.Verify(t.Context(), stranger)
		})
	}
	wg.Wait()
	if n := v.reads.Load() - was; n != 1 {
		t.Errorf("%d readings", n)
	}
}
