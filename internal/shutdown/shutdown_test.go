package shutdown

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestOverdueTime: the error of a shutdown that is stuck says how long it took, also after a second signal.
func TestOverdueTime(t *testing.T) {
	for _, c := range []struct {
		hurryAfter time.Duration // 0 means never
		says       string
	}{{0, "1m10s after the signal"}, {5 * time.Second, "15s after the signal"}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			hurry, free := make(chan struct{}), make(chan struct{})
			if c.hurryAfter > 0 {
				time.AfterFunc(c.hurryAfter, func() { close(hurry) })
			}
			d := Deadline{Drain: time.Minute, Most: 10 * time.Second, Hurry: hurry, Log: slog.New(slog.DiscardHandler)}
			err := d.Run(ctx, func() error { <-free; return nil })
			if !errors.Is(err, ErrOverdue) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("hurry after %v: %v, want %s", c.hurryAfter, err, c.says)
			}
			close(free)
		})
	}
}
