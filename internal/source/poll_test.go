package source

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/workflow"
)

// shop is a server with a list of orders.
type shop struct {
	*httptest.Server
	mu       sync.Mutex
	orders   []string
	asked    chan struct{}
	same     atomic.Int64 // answers that said that nothing has changed
	modified int
}

func newShop(t *testing.T) *shop {
	s := &shop{asked: make(chan struct{}, 1000)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.asked <- struct{}{} }()
		s.mu.Lock()
		defer s.mu.Unlock()
		tag := fmt.Sprintf(`"v%d"`, s.modified)
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			s.same.Add(1)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, `{"data":{"orders":[%s]}}`, strings.Join(s.orders, ","))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) set(orders ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders, s.modified = orders, s.modified+1
}

func (s *shop) poll(newer string) func() Source {
	shared := NewShared()
	return func() Source {
		return &Poll{Config: &workflow.Poll{URL: s.URL, Every: workflow.Duration(5 * time.Millisecond), Items: "answer.data.orders", ID: "item.id", Newer: newer}, Shared: shared, Transport: local,
			Request: func(context.Context) (string, []connection.Header, error) { return s.URL + "/?key=secret", nil, nil }}
	}
}

func order(n int) string {
	return fmt.Sprintf(`{"id":%d,"at":"2027-01-01T00:%02d:%02dZ"}`, n, n/60%60, n%60)
}

func orders(from, until int) (all []string) {
	for n := from; n < until; n++ {
		all = append(all, order(n))
	}
	return all
}

// TestPollNew: the items of the first answer are no events, each later item is one event, and an answer that
// has not changed is not read.
func TestPollNew(t *testing.T) {
	s, l := newShop(t), newLedger()
	s.set(orders(0, 3)...)
	l.running(t, s.poll(""))
	l.until(t, "begins", func() bool { return l.cursor != nil })
	s.set(orders(1, 6)...)
	l.until(t, "three come", func() bool { return len(l.values) == 3 })
	for s.same.Load() < 2 {
		<-s.asked
	}
	if got := l.got(); !slices.Equal(got, orders(3, 6)) {
		t.Errorf("%q", got)
	}
	s.set(append(orders(1, 6), `{"at":1}`, `{"id":7}`)...)
	l.until(t, "one without id", func() bool { return len(l.values) == 4 && len(l.unread) == 1 })
	if !strings.Contains(l.unread[0], "id") {
		t.Errorf("%q", l.unread)
	}
}

// TestPollDies lets the owner die before and after every transaction. Each item must be one event.
func TestPollDies(t *testing.T) {
	const most = 1700
	s, l := newShop(t), newLedger()
	s.set()
	l.before = func(n int) error {
		if n%3 == 1 {
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
	stop := l.running(t, s.poll(""))
	l.until(t, "begins", func() bool { return l.cursor != nil })
	for n := 0; n < most; n += 170 {
		s.set(orders(0, n+170)...)
		l.until(t, "all come", func() bool { return len(l.values) == n+170 })
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := l.got(); !slices.Equal(got, orders(0, most)) || l.again != 0 {
		t.Errorf("%d, %d again", len(got), l.again)
	}
}

// TestPollMany: with the key newer, an answer may have more items than a cursor lists.
func TestPollMany(t *testing.T) {
	const most = 2600
	s, l := newShop(t), newLedger()
	s.set(orders(0, 100)...)
	l.running(t, s.poll("timestamp(item.at)"))
	l.until(t, "begins", func() bool { return l.cursor != nil })
	all := orders(0, most)
	slices.Reverse(all) // the newest first
	s.set(all...)
	l.until(t, "all come", func() bool { return len(l.values) == most-100 })
	all = append(orders(most, most+5), all...)
	s.set(all...)
	l.until(t, "five more come", func() bool { return len(l.values) == most-95 })
	if got := l.got(); !slices.Equal(got, orders(100, most+5)) || l.again != 0 {
		t.Errorf("%d, %d again", len(got), l.again)
	}
	without := newLedger()
	if err := without.running(t, s.poll(""))(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, errMany) {
		t.Error(err)
	}
}

// TestPollHostile: a server cannot make a node hang, run out of memory, or call another address.
func TestPollHostile(t *testing.T) {
	defer func(is time.Duration) { lookMax = is }(lookMax)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { t.Error("the node was called"); fmt.Fprint(w, "[1]") }))
	defer own.Close()
	ended := make(chan struct{})
	defer close(ended)
	handlers := map[string]struct {
		h    http.HandlerFunc
		want error
	}{
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, errSlow},
		"drips":  {func(w http.ResponseWriter, r *http.Request) { drip(w, r) }, errSlow},
		"huge":   {func(w http.ResponseWriter, _ *http.Request) { write(w, `[`, ` `, 9<<20) }, errLarge},
		"bomb":   {bomb, errLarge},
		"page":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Sign in</html>") }, errForm},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "[1,")
		}, io.ErrUnexpectedEOF},
		"deep":    {func(w http.ResponseWriter, _ *http.Request) { write(w, ``, `[`, 1<<20) }, errForm},
		"no list": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"orders":3}`) }, workflow.ErrItems},
		"other":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1,2]`) }, workflow.ErrItems},
		"many":    {func(w http.ResponseWriter, _ *http.Request) { write(w, `{"orders":[1`, `,1`, 20_000, `]}`) }, errMany},
		"refuses": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, errStatus},
		"own":     {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, own.URL, http.StatusFound) }, refused(egress.CodeOwn)},
		"metadata": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/", http.StatusFound)
		}, refused(egress.CodeMetadata)},
		"private": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.1.2.3/", http.StatusFound)
		}, refused(egress.CodePolicy)},
		"ring": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/?"+r.URL.RawQuery+"x", http.StatusFound)
		}, nil},
		"file": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}, nil},
	}
	shared := NewShared()
	for name, one := range handlers {
		if lookMax = time.Minute; errors.Is(one.want, errSlow) {
			lookMax = 300 * time.Millisecond
		}
		s := httptest.NewServer(one.h)
		rules := egress.Rules{Policies: []string{"127.0.0.0/8"}, Own: []egress.Own{{What: "node", Address: strings.TrimPrefix(own.URL, "http://")}}}
		p := &Poll{Config: &workflow.Poll{URL: s.URL, Every: workflow.Duration(time.Hour), Items: "answer.orders"}, Shared: shared, Start: Start{Beginning: true},
			Transport: func(context.Context) (http.RoundTripper, error) {
				tr, err := egress.Transport(rules)
				if err == nil {
					tr.DisableKeepAlives = true
				}
				return tr, err
			},
			Request: func(context.Context) (string, []connection.Header, error) { return s.URL + "/?key=hidden", nil, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := p.Run(ctx, nil, func(context.Context, Batch) error { return errors.New("it gave events") })
		cancel()
		is, _ := egress.Refused(err)
		want, code := one.want.(refused)
		if err == nil || code && (is == nil || is.Code != string(want)) || !code && one.want != nil && !errors.Is(err, one.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
		s.CloseClientConnections()
		s.Close()
	}
	if shared.left != budgetMax {
		t.Errorf("%d bytes of the budget are lost", budgetMax-shared.left)
	}
}

// refused is the code of a refused address.
type refused string

func (r refused) Error() string { return string(r) }

func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := fmt.Fprint(w, " "); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func write(w http.ResponseWriter, first, text string, n int, last ...string) {
	fmt.Fprint(w, first, strings.Repeat(text, n), strings.Join(last, ""))
}

func bomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	for range 64 {
		_, _ = z.Write([]byte(strings.Repeat(" ", 1<<20)))
	}
	_ = z.Close()
}

// TestPollLater: a server can delay the next look.
func TestPollLater(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer s.Close()
	p := &Poll{Config: &workflow.Poll{URL: s.URL, Every: workflow.Duration(time.Hour)}, Shared: NewShared(), Transport: local,
		Request: func(context.Context) (string, []connection.Header, error) { return s.URL, nil, nil }}
	err := p.Run(t.Context(), nil, func(context.Context, Batch) error { return nil })
	var later *LaterError
	if !errors.As(err, &later) || later.After != 2*time.Minute || !strings.Contains(err.Error(), "429") {
		t.Errorf("%v", err)
	}
}

// TestPollExpressions: exact values stay exact, and each fault names its expression.
func TestPollExpressions(t *testing.T) {
	const text = `{"a":{"b-c":[{"id":9007199254740993,"n":1.50},{"id":"x"}]},"one":{"id":1}}`
	for items, want := range map[string]string{
		`answer.a["b-c"]`:                        `[{"id":9007199254740993,"n":1.50},{"id":"x"}]`,
		`answer.a["b-c"].filter(i, i.id == "x")`: `[{"id":"x"}]`,
		`[answer.one]`:                           `[{"id":1}]`,
		``:                                       `[` + text + `]`,
		`answer.c`:                               `items does not give a list: the answer has no "c"`,
		`answer.one.id`:                          `items does not give a list, but "1"`,
		`answer.one.id + 1`:                      `items does not give a list, but a int`,
		`answer.a["b-c"].map(i, i.id + answer.one.id)`: `items: `,
	} {
		r, err := (&workflow.Poll{Items: items}).Reader()
		if err != nil {
			t.Errorf("%s: %v", items, err)
			continue
		}
		list, err := r.Items([]byte(text))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			raw, err := json.Marshal(list)
			if got = string(raw); err != nil {
				t.Error(err)
			}
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", items, got)
		}
	}
}
