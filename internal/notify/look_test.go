package notify_test

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
)

// turns calls a function before each read of due notices.
type turns struct {
	notify.Store
	n      int
	before func(n int)
}

func (s *turns) DueNotices(ctx context.Context, q store.NoticeQuery) ([]store.Notice, error) {
	s.n++
	s.before(s.n)
	var err error
	if q.Now, err = s.Clock(ctx); err != nil { // the function may have let time pass
		return nil, err
	}
	return s.Store.DueNotices(ctx, q)
}

// TestChangedMeanwhile checks that a sender with many notices uses the present configuration of the channels,
// and not the one that was valid when it began.
func TestChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.answer = func(string, int, *http.Request) (*http.Response, error) { return said(200) }
		w.tell(1, 1, "ops")
		st := &turns{Store: w.st, before: func(n int) {
			if n != 2 { // the second read of the first look
				return
			}
			time.Sleep(time.Second) // the first call ends
			if _, err := w.st.PutAlertChannel(w.Context(), store.AlertChannel{Namespace: "shop", Name: "ops", Version: 2,
				Data: []byte(`{"webhook":{"url":"https://new.example/x"}}`)}); err != nil {
				t.Error(err)
			}
			w.tell(2, 1, "ops")
		}}
		s := notify.New(notify.Options{Store: st, Shards: func() []dag.ShardID { return w.shards }, Transport: func(context.Context, string) (http.RoundTripper, error) { return w, nil },
			Jitter: func(d time.Duration) time.Duration { return d / 2 }, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		time.Sleep(time.Minute)
		cancel()
		running.Wait()
		w.want("the old address", w.hears("ops"), "0 1.1")
		w.want("the new address", w.hears("new"), "1 2.1")
	})
}

// TestPanic: a panic in a call is an error of this call, and the node continues.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.answer = func(_ string, call int, _ *http.Request) (*http.Response, error) {
			if call == 0 {
				panic("a library did not expect this answer")
			}
			return said(200)
		}
		w.tell(1, 1, "ops")
		_, stop := w.sender()
		time.Sleep(time.Minute)
		stop()
		w.want("calls", w.hears("ops"), "0 1.1", "5 1.1")
		w.want("notice", w.notices(1), "1 ops sent 2")
	})
}
