package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/inspect"
	api "skein.dev/skein/sdk/api/v1"
)

// TestWeights: two large requests or many small ones are processed at a time, in the order of their arrival.
// The time that a request waits is bounded, and so is the number of waiting requests.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w weights
		var now, most, order atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				leave, err := w.enter(t.Context(), 3<<20)
				if err != nil {
					t.Error(err)
					return
				}
				if n := order.Add(1) - 1; n != int64(i) {
					t.Errorf("request %d is worked on as number %d", i, n)
				}
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
				leave()
			})
		}
		wg.Wait()
		if most.Load() != 2 || w.used != 0 || w.waiting != 0 {
			t.Errorf("%d at a time, %d used, %d waiting", most.Load(), w.used, w.waiting)
		}
		var leaves []func()
		for range 400 {
			leave, err := w.enter(t.Context(), 10<<10)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		began := time.Now()
		if _, err := w.enter(t.Context(), 1<<20); !isBusy(err) || time.Since(began) != heavyWaitMax {
			t.Errorf("one whose turn does not come: %v after %v", err, time.Since(began))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := w.enter(ctx, 1<<20); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that goes away: %v", err)
		}
		for i := range heavyWaitingMax >> 25 {
			wg.Go(func() {
				if leave, err := w.enter(t.Context(), 32<<20); err == nil {
					leave()
				} else {
					t.Errorf("one that waits, %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		if _, err := w.enter(t.Context(), 1); !isBusy(err) {
			t.Errorf("one for which there is no room to wait: %v", err)
		}
		for _, leave := range leaves {
			leave()
		}
		wg.Wait()
		if w.used != 0 || w.waiting != 0 || len(w.turns) != 0 {
			t.Errorf("left over: %d used, %d waiting, %d turns", w.used, w.waiting, len(w.turns))
		}
	})
}

// TestRecountsAreLight: a recount, which may take minutes, uses none of the weight of heavy requests.
func TestRecountsAreLight(t *testing.T) {
	s := &Server{recounts: make(places, 1)}
	asked := false
	s.cfg.Verify = func(context.Context) ([]inspect.Violation, error) {
		asked = true
		if s.heavy.used != 0 {
			t.Errorf("a recount weighs %d of %d", s.heavy.used, heavyMax)
		}
		if _, err := s.verify(t.Context(), nil); !isBusy(err) {
			t.Errorf("a second recount: %v", err)
		}
		return nil, nil
	}
	if _, err := s.verify(t.Context(), nil); err != nil || !asked {
		t.Errorf("asked: %v, %v", asked, err)
	}
}

func isBusy(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.Status == http.StatusTooManyRequests && f.header.Get("Retry-After") != ""
}

// TestEventsGoOnAnywhere cuts a history, whose transactions have from one to four lines, into pages of every
// size.
func TestEventsGoOnAnywhere(t *testing.T) {
	var all []api.Event
	for seq := int64(3); seq < 40; seq += 1 + seq%3 {
		for line := range 1 + seq%4 {
			all = append(all, api.Event{Seq: seq, Kind: fmt.Sprint(line)})
		}
	}
	for size := 1; size <= len(all); size++ {
		var got []api.Event
		for cursor := ""; len(got) < len(all); {
			p := &Page{}
			if cursor != "" {
				p.Cursor = *list([]int{}, cursor).Body.Next
			}
			after, skip, err := p.afterEvent()
			if err != nil {
				t.Fatal(err)
			}
			var rest []api.Event // the lines after a transaction, without those that were read already
			for _, e := range all {
				if e.Seq > after {
					rest = append(rest, e)
				}
			}
			page := rest[skip:]
			page = page[:min(size, len(page))]
			got = append(got, page...)
			cursor = inEvents(page, after, skip)
		}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Fatalf("pages of %d: %v", size, got)
		}
	}
	for _, bad := range []string{"x", "1.", ".1", "-1", "1.-1", "1.2.3"} {
		if _, _, err := (&Page{Cursor: *list([]int{}, bad).Body.Next}).afterEvent(); err == nil {
			t.Errorf("cursor %q is taken", bad)
		}
	}
}
