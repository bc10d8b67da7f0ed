package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/metric/metrictest"
	"skein.dev/skein/internal/notify"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/memory"
)

// world is a store with incidents, and the receivers of their notices.
type world struct {
	*testing.T
	st     *memory.Store
	fence  store.Fence
	began  time.Time
	shards []dag.ShardID

	mu      sync.Mutex // protects following fields
	answer  func(host string, call int, r *http.Request) (*http.Response, error)
	heard   map[string][]string // by host: "SECONDS ID"
	active  map[string]int
	highest map[string]int // calls at a time
	fault   func(memory.Op) memory.Outcome
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, began: time.Now(), heard: map[string][]string{}, active: map[string]int{}, highest: map[string]int{}, shards: []dag.ShardID{0}}
	w.st = memory.New(memory.Options{Fault: func(op memory.Op) memory.Outcome {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.fault == nil {
			return memory.OK
		}
		return w.fault(op)
	}})
	got, err := w.st.Acquire(t.Context(), 1, []dag.ShardID{0})
	if err != nil {
		t.Fatal(err)
	}
	w.fence = got[0].Fence
	return w
}

// RoundTrip plays the receivers.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	var msg notify.Message
	if err := json.Unmarshal(body, &msg); err != nil {
		w.Error(err)
	}
	w.mu.Lock()
	host := r.URL.Host
	call := len(w.heard[host])
	w.heard[host] = append(w.heard[host], fmt.Sprintf("%d %s", int(time.Since(w.began).Seconds()), short(msg.Data.ID)))
	w.active[host]++
	w.highest[host] = max(w.highest[host], w.active[host])
	answer := w.answer
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.active[host]--
		w.mu.Unlock()
	}()
	return answer(host, call, r)
}

// short returns a short form of the id of a notice: "1.2" for the second notice of the first incident.
func short(id string) string {
	parts := strings.Split(id, "_")
	return strings.TrimLeft(parts[1][:2], "0") + "." + parts[2]
}

func said(code int, header ...string) (*http.Response, error) {
	r := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("words"))}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r, nil
}

func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (w *world) channel(name string) {
	_, err := w.st.PutAlertChannel(w.Context(), store.AlertChannel{Namespace: "shop", Name: name, Version: 1,
		Data: fmt.Appendf(nil, `{"webhook":{"url":"https://%s.example/x"}}`, name)})
	if err != nil {
		w.Fatal(err)
	}
}

// tell writes the notices of transitions of an incident.
func (w *world) tell(incident byte, seq int32, channels ...string) {
	now := dag.Micro(time.Now())
	body := alert.Notice{Kind: alert.KindOpened, Incident: uuid.UUID{incident}.String(), Seq: seq, Namespace: "shop", Workflow: "orders", Rule: "r", Severity: "error",
		Text: "shop/orders: run x failed", Event: alert.Happening{Event: alert.Failed, Run: "x"}, Count: 1, At: now}
	data, _ := json.Marshal(&body)
	b := &store.Batch{Fences: []store.Fence{w.fence}}
	for _, name := range channels {
		b.Notices = append(b.Notices, store.Notice{Incident: uuid.UUID{incident}, Seq: seq, Channel: name, Namespace: "shop", Workflow: 5, State: store.NoticePending,
			Due: now, Created: now, Data: data})
	}
	if _, err := w.st.Commit(w.Context(), b); err != nil {
		w.Fatal(err)
	}
	w.fence.Seq++
}

// sender runs a sender until stop is called.
func (w *world) sender() (s *notify.Sender, stop func()) {
	s = notify.New(notify.Options{Store: w.st, Shards: func() []dag.ShardID { return w.shards }, Transport: func(context.Context, string) (http.RoundTripper, error) { return w, nil },
		Secret: func(context.Context, string, string) ([]byte, error) { return nil, errors.New("there is no secret") },
		Jitter: func(d time.Duration) time.Duration { return d / 2 }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		s.Run(ctx)
		close(done)
	}()
	return s, func() {
		cancel()
		<-done
	}
}

func (w *world) notices(incident byte) (all []string) {
	rows, err := w.st.Notices(context.Background(), uuid.UUID{incident})
	if err != nil {
		w.Fatal(err)
	}
	for _, n := range rows {
		all = append(all, fmt.Sprintf("%d %s %s %d", n.Seq, n.Channel, n.State, n.Tries))
	}
	return all
}

func (w *world) hears(host string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.heard[host+".example"])
}

func (w *world) want(what string, got []string, want ...string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestCalls checks, for several series of answers, when the receiver is called, and the state of the notice
// afterwards.
func TestCalls(t *testing.T) {
	for name, c := range map[string]struct {
		answers []func(*http.Request) (*http.Response, error)
		heard   []string
		state   string
	}{
		"taken":             {nil, []string{"0 1.1"}, "1 ops sent 1"},
		"500 twice":         {answers(code(500), code(503)), []string{"0 1.1", "5 1.1", "15 1.1"}, "1 ops sent 3"},
		"429 for a minute":  {answers(code(429, "Retry-After", "60")), []string{"0 1.1", "60 1.1"}, "1 ops sent 2"},
		"503 for a second":  {answers(code(503, "Retry-After", "1")), []string{"0 1.1", "5 1.1"}, "1 ops sent 2"},
		"429 for a year":    {answers(code(429, "Retry-After", "31000000")), []string{"0 1.1", "3600 1.1"}, "1 ops sent 2"},
		"408, 425":          {answers(code(408), code(425)), []string{"0 1.1", "5 1.1", "15 1.1"}, "1 ops sent 3"},
		"gone":              {answers(code(410)), []string{"0 1.1"}, "1 ops failed 1"},
		"404 after a while": {answers(code(500), code(404)), []string{"0 1.1", "5 1.1"}, "1 ops failed 2"},
		"moved":             {answers(code(301, "Location", "https://other.example")), []string{"0 1.1"}, "1 ops failed 1"},
		"hangs":             {answers(hang), []string{"0 1.1", "15 1.1"}, "1 ops sent 2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.channel("ops")
				w.answer = func(_ string, call int, r *http.Request) (*http.Response, error) {
					if call < len(c.answers) {
						return c.answers[call](r)
					}
					return said(204)
				}
				w.tell(1, 1, "ops")
				s, stop := w.sender()
				time.Sleep(2 * time.Hour)
				stop()
				w.want("calls", w.hears("ops"), c.heard...)
				w.want("notice", w.notices(1), c.state)
				shown, last := metrictest.Read(t, s.Show), strings.Fields(c.state)[2]
				for outcome, n := range map[string]float64{last: 1, "again": float64(len(c.heard) - 1)} {
					if is := shown[`alert_notices_total{outcome="`+outcome+`"}`]; is != n {
						t.Errorf("the metric has %v notices %s, want %v", is, outcome, n)
					}
				}
			})
		})
	}
}

func answers(all ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	return all
}

func code(n int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return said(n, header...) }
}

// TestExpiry: a notice that its channel does not accept is tried for a day, in the end every 15 minutes. The
// same holds for a notice without a channel. A notice that is older than a day when a sender finds it is not
// sent.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.answer = func(string, int, *http.Request) (*http.Response, error) { return said(500) }
		w.tell(1, 1, "ops", "none")
		_, stop := w.sender()
		time.Sleep(23 * time.Hour)
		w.tell(2, 1, "ops")
		time.Sleep(90 * time.Minute)
		stop()
		heard := w.hears("ops")
		if n := len(heard); n < 95 || n > 120 {
			t.Errorf("%d calls", n)
		}
		for _, is := range w.notices(1) {
			if !strings.Contains(is, " expired ") {
				t.Errorf("after a day: %s", is)
			}
		}
		time.Sleep(48 * time.Hour)
		_, stop = w.sender()
		synctest.Wait()
		stop()
		if now := w.hears("ops"); len(now) != len(heard) {
			t.Errorf("an old notice was sent: %q", now[len(heard):])
		}
		if is := w.notices(2)[0]; !strings.Contains(is, " expired ") {
			t.Errorf("an old notice is %s", is)
		}
	})
}

// TestHangDelaysNoOther: a channel that hangs uses only its own few calls, and the other channels get their
// notices at once.
func TestHangDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("stuck")
		w.channel("fine")
		w.answer = func(host string, _ int, r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(host, "stuck") {
				return hang(r)
			}
			return said(200)
		}
		for i := range byte(200) {
			w.tell(i+1, 1, "stuck")
		}
		for i := range byte(200) {
			w.tell(i+1, 2, "fine")
		}
		_, stop := w.sender()
		synctest.Wait()
		heard := w.hears("fine")
		if len(heard) != 200 || heard[199][:2] != "0 " {
			t.Errorf("%d of 200 messages came at once", len(heard))
		}
		time.Sleep(time.Minute)
		stop()
		if n := w.highest["stuck.example"]; n != 4 {
			t.Errorf("the channel that hangs had %d calls at a time", n)
		}
	})
}

// TestOrder: a channel gets the notice about the end of an incident after the one about its beginning. Other
// channels do not wait for that.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.channel("mail")
		w.answer = func(host string, call int, _ *http.Request) (*http.Response, error) {
			if strings.HasPrefix(host, "ops") && call < 2 {
				return said(500)
			}
			return said(200)
		}
		w.tell(1, 1, "ops", "mail")
		w.tell(1, 2, "ops", "mail")
		_, stop := w.sender()
		time.Sleep(time.Minute)
		stop()
		w.want("ops", w.hears("ops"), "0 1.1", "5 1.1", "15 1.1", "15 1.2")
		w.want("mail", w.hears("mail"), "0 1.1", "0 1.2")
	})
}

// TestOwners: only the owner of the shard sends. If the owner ends while it sends, the next owner sends the
// notice again, with the same id.
func TestOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.answer = func(_ string, call int, r *http.Request) (*http.Response, error) {
			if call == 0 {
				return hang(r)
			}
			return said(200)
		}
		w.tell(1, 1, "ops")
		w.shards = nil
		_, stop := w.sender()
		time.Sleep(time.Hour)
		stop()
		w.want("of another owner", w.hears("ops"))
		w.shards = []dag.ShardID{0}
		_, stop = w.sender()
		synctest.Wait()
		stop()
		w.want("cut off", w.notices(1), "1 ops pending 0")
		s, stop := w.sender()
		synctest.Wait()
		w.tell(2, 1, "ops")
		s.Wake()
		synctest.Wait()
		stop()
		w.want("calls", w.hears("ops"), "3600 1.1", "3600 1.1", "3600 2.1")
		w.want("first", w.notices(1), "1 ops sent 1")
		w.want("second", w.notices(2), "1 ops sent 1")
	})
}

// TestStoreAway: if the end of a call cannot be recorded, the notice is not sent again and again.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.channel("ops")
		w.answer = func(string, int, *http.Request) (*http.Response, error) { return said(200) }
		w.tell(1, 1, "ops")
		w.fault = func(op memory.Op) memory.Outcome {
			if op.Kind == memory.AlertsBefore && time.Since(w.began) < time.Hour {
				return memory.FailBefore
			}
			return memory.OK
		}
		_, stop := w.sender()
		time.Sleep(2 * time.Hour)
		stop()
		w.want("calls", w.hears("ops"), "0 1.1")
		w.want("notice", w.notices(1), "1 ops sent 1")
	})
}

// TestAppearing: a channel that is created later gets the notices that wait for it.
func TestAppearing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = func(string, int, *http.Request) (*http.Response, error) { return said(200) }
		w.tell(1, 1, "ops")
		_, stop := w.sender()
		time.Sleep(7 * time.Second)
		w.channel("ops")
		time.Sleep(time.Minute)
		stop()
		w.want("calls", w.hears("ops"), "15 1.1")
	})
}
