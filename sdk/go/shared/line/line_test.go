package line_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/sdk/shared/line"
)

// served starts a server of lines. f answers the calls.
func served(t *testing.T, life time.Duration, f func(ctx context.Context, call []byte) ([]byte, error)) (url string, end func()) {
	t.Helper()
	lines := line.NewLines()
	if life > 0 {
		lines.Shorten(life)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/none":
			http.NotFound(w, r)
		case "/later":
			http.Error(w, "not now", http.StatusServiceUnavailable)
		default:
			if r.Header.Get("Authorization") != "Bearer right" {
				http.Error(w, "who?", http.StatusUnauthorized)
				return
			}
			lines.Serve(w, r, f)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(lines.Close)
	return s.URL, lines.Close
}

var shown = http.Header{"Authorization": {"Bearer right"}}

func open(t *testing.T, url string) *line.Line {
	t.Helper()
	l, err := line.Open(t.Context(), http.DefaultTransport, url, shown)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestCalls checks that each call gets its own reply, of any content, and that a line still works after a
// refusal.
func TestCalls(t *testing.T) {
	url, end := served(t, 0, func(_ context.Context, call []byte) ([]byte, error) {
		switch string(call) {
		case "no":
			return nil, &line.Refused{Code: 7, Text: "no means no"}
		case "broken":
			return nil, errors.New("something else")
		}
		return append([]byte("re: "), call...), nil
	})
	l := open(t, url)
	big := bytes.Repeat([]byte("x"), line.CallMax)
	for _, call := range [][]byte{[]byte("one"), nil, []byte("no"), []byte("two"), big, []byte("broken"), []byte("three")} {
		reply, err := l.Call(t.Context(), call)
		var refused *line.Refused
		switch string(call) {
		case "no":
			if !errors.As(err, &refused) || refused.Code != 7 || refused.Text != "no means no" {
				t.Errorf("no: %q, %v", reply, err)
			}
		case "broken":
			if !errors.As(err, &refused) || refused.Code == 0 {
				t.Errorf("broken: %q, %v", reply, err)
			}
		default:
			if err != nil || string(reply) != "re: "+string(call) {
				t.Errorf("%.20q: %.20q, %v", call, reply, err)
			}
		}
	}
	if _, err := l.Call(t.Context(), append(big, 'x')); err == nil {
		t.Error("a call beyond the bound was made")
	}
	if _, err := l.Call(t.Context(), []byte("four")); err != nil {
		t.Errorf("after a call beyond the bound: %v", err)
	}
	if !l.Fresh() {
		t.Error("not fresh")
	}
	end()
	if reply, err := l.Call(t.Context(), []byte("five")); err == nil {
		t.Errorf("a line of a server that has ended: %q", reply)
	}
}

// TestChecked checks that the server checks each call, not only the first one.
func TestChecked(t *testing.T) {
	lines, let := line.NewLines(), atomic.Bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines.Serve(w, r.WithContext(line.Checked(r.Context(), func() error {
			if let.Load() {
				return nil
			}
			return &line.Refused{Code: line.Unauthenticated, Text: "no more"}
		})), func(context.Context, []byte) ([]byte, error) { return []byte("yes"), nil })
	}))
	defer s.Close()
	defer lines.Close()
	l := open(t, s.URL)
	for _, may := range []bool{true, false, true} {
		let.Store(may)
		reply, err := l.Call(t.Context(), nil)
		var refused *line.Refused
		if may != (err == nil) || may != (string(reply) == "yes") || !may && !(errors.As(err, &refused) && refused.Code == line.Unauthenticated) {
			t.Errorf("let in %v: %q, %v", may, reply, err)
		}
	}
}

// TestOpen checks that a client without a line learns whether to try again.
func TestOpen(t *testing.T) {
	url, _ := served(t, 0, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	for path, none := range map[string]bool{"/none": true, "/later": false} {
		if _, err := line.Open(t.Context(), http.DefaultTransport, url+path, shown); err == nil || errors.Is(err, line.ErrNone) != none {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := line.Open(t.Context(), http.DefaultTransport, url, nil); err == nil {
		t.Error("a line without a token")
	}
	res, err := http.Get(url + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized {
		t.Errorf("no token: %s", res.Status)
	}
}

// TestEnds checks that a line ends after its longest time, with the context of its caller, and with the
// server.
func TestEnds(t *testing.T) {
	waits := func(ctx context.Context, call []byte) ([]byte, error) {
		if string(call) == "wait" {
			<-ctx.Done()
		}
		return nil, ctx.Err()
	}
	url, _ := served(t, 10*time.Millisecond, waits)
	l := open(t, url)
	for began := time.Now(); ; {
		if _, err := l.Call(t.Context(), nil); err != nil {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("it does not end")
		}
	}
	url, end := served(t, 0, waits)
	ctx, cancel := context.WithCancel(t.Context())
	l = open(t, url)
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := l.Call(ctx, []byte("wait")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone: %v", err)
	}
	l = open(t, url)
	over := make(chan error, 1)
	go func() {
		_, err := l.Call(t.Context(), []byte("wait"))
		over <- err
	}()
	end()
	if err := <-over; err == nil {
		t.Error("a call outlived the server's lines")
	}
}

// TestEndsWithItsRequest checks that a line ends with the request that opened it, even without a call.
func TestEndsWithItsRequest(t *testing.T) {
	lines := line.NewLines()
	end := make(chan context.CancelFunc, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		end <- cancel
		lines.Serve(w, r.WithContext(ctx), func(context.Context, []byte) ([]byte, error) { return []byte("yes"), nil })
	}))
	defer s.Close()
	defer lines.Close()
	l := open(t, s.URL)
	if _, err := l.Call(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	(<-end)()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if _, err := l.Call(t.Context(), nil); err != nil {
			return
		}
	}
	t.Error("the line goes on")
}
