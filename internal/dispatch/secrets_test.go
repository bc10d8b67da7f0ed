package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/provider"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// TestHideQuotedRest: of an error that quotes a part of a secret, only the position is kept.
func TestHideQuotedRest(t *testing.T) {
	s := secretsOf{values: []string{"1h30-hunter2"}}
	err := s.hide(errors.New(`env WAIT: time: unknown unit "-hunter" in duration "1h30-hunter"`))
	if text := err.Error(); strings.Contains(text, "hunter") || !strings.HasPrefix(text, "env WAIT: ") {
		t.Error(text)
	}
	s.values = nil
	if err := s.hide(errors.New("env WAIT: no such key: x")); err.Error() != "env WAIT: no such key: x" {
		t.Error(err)
	}
}

// absent is a provider of secrets that does not answer until it is back.
type absent struct{ back time.Time }

func (a absent) Value(ctx context.Context, _, _ string, quick bool) ([]byte, error) {
	switch {
	case quick:
		return nil, provider.ErrSlow
	case time.Now().Before(a.back):
		return nil, fmt.Errorf("provider corp: %w", provider.ErrAway)
	}
	return []byte("value-of-it"), ctx.Err()
}

// needy returns a resolver, and the assignment of a task that reads a secret.
func needy(t *testing.T, secrets Secrets) (*Resolver, *engine.Assignment) {
	t.Helper()
	ws, errs := workflow.Parse([]byte("name: w\ntasks: {a: {run: 'true', env: {A: '${{ secrets.A }}'}}}\n"), workflow.Options{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	g, err := ws[0].Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	def, err := json.Marshal(ws[0])
	if err != nil {
		t.Fatal(err)
	}
	return NewResolver(Config{Store: &away{def: def}, Secrets: secrets}),
		&engine.Assignment{Run: dag.RunID{1}, Workflow: 1, Version: 1, Name: "a", Token: 1, Graph: g}
}

// TestWaitForProvider: an attempt waits for a provider of secrets that is away, for two minutes. The end of
// the wait is a failure with the cause secret.
func TestWaitForProvider(t *testing.T) {
	for _, c := range []struct {
		away time.Duration
		want error
	}{{0, nil}, {time.Minute, nil}, {time.Hour, provider.ErrAway}} {
		synctest.Test(t, func(t *testing.T) {
			r, a := needy(t, absent{time.Now().Add(c.away)})
			began, is := time.Now(), (*resolved)(nil)
			err := r.surely(t.Context(), a, func() (err error) { is, err = r.resolve(t.Context(), a, &dag.Traits{}, false); return err },
				func(d time.Duration) bool {
					if why := r.Waits(a.Run, a.Task, a.Token); !strings.Contains(why, "provider corp") {
						t.Errorf("it waits for %q", why)
					}
					time.Sleep(d)
					return true
				})
			if why := r.Waits(a.Run, a.Task, a.Token); why != "" {
				t.Errorf("after its end, it waits for %q", why)
			}
			took := time.Since(began)
			switch {
			case !errors.Is(err, c.want):
				t.Errorf("away for %s: %v", c.away, err)
			case err != nil && (causeOf(err) != causeSecret || !strings.Contains(err.Error(), "provider corp")):
				t.Errorf("away for %s: %s, %v", c.away, causeOf(err), err)
			case err == nil && (len(is.job.Env) != 1 || is.job.Env[0] != "A=value-of-it" || len(is.job.Secrets) != 1):
				t.Errorf("away for %s: %+v", c.away, is.job)
			case took > secretsAway+2*askAgainLate || took < min(c.away, secretsAway):
				t.Errorf("away for %s: it has waited for %s", c.away, took)
			}
			if _, err := r.resolve(t.Context(), a, &dag.Traits{}, true); !errors.Is(err, provider.ErrSlow) {
				t.Errorf("at once: %v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // before that, the store does not answer for longer than the wait for a provider
		r, a := needy(t, absent{})
		began := time.Now()
		err := r.surely(t.Context(), a, func() error {
			switch {
			case time.Since(began) < 2*secretsAway:
				return store.ErrUnavailable
			case time.Since(began) < 3*secretsAway-10*time.Second:
				return fmt.Errorf("provider corp: %w", provider.ErrAway)
			}
			return nil
		}, func(d time.Duration) bool { time.Sleep(d); return true })
		if err != nil {
			t.Errorf("an outage of the store counts against a provider: %v", err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, a := needy(t, absent{time.Now().Add(time.Hour)})
	err := r.surely(ctx, a, func() (err error) { cancel(); _, err = r.resolve(ctx, a, &dag.Traits{}, false); return err }, func(time.Duration) bool { return true })
	if !errors.Is(err, errUnwanted) {
		t.Errorf("a cancelled attempt: %v", err)
	}
}
