package auth

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"skein.dev/skein/internal/store"
)

// TestRates checks that a caller may make a burst of calls and then a bounded number a second, and that this
// does not reduce the calls of another caller. The local token, workers and nodes are not bounded.
func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rates{Rates: Rates{Sessions: 10, Tokens: 5}, now: func() time.Time { return now }, calls: map[rated]*bucket{}, spaces: map[string]*bucket{}}
	calls := func(c credential, n int) (passed int) {
		for range n {
			if !r.over(&c) {
				passed++
			}
		}
		return passed
	}
	person := func(id int64) credential {
		return credential{token: store.Token{Kind: kindUser, Principal: id}, session: &Session{}}
	}
	token := func(kind string, id int64) credential {
		return credential{token: store.Token{Kind: kind, Principal: id}}
	}
	for _, c := range []struct {
		name string
		by   credential
		wait time.Duration
		want int
	}{
		{"a burst of one person", person(1), 0, 40},
		{"another session of the same person", person(1), 0, 0},
		{"another person", person(2), 0, 40},
		{"the token of the first person", token(store.TokenAPI, 1), 0, 20},
		{"half a second later", person(1), time.Second / 2, 5},
		{"a minute later", person(1), time.Minute, 40},
		{"a clock that was set back", person(1), -time.Hour, 0},
		{"a worker", token(store.TokenWorker, 0), 0, 1000},
		{"a node", token(store.TokenNode, 0), 0, 1000},
		{"the token of the start", token(kindLocal, 0), 0, 1000},
		{"a session of the token of the start", credential{token: store.Token{Kind: kindLocal}, session: &Session{Local: true}}, 0, 1000},
	} {
		now = now.Add(c.wait)
		if got := calls(c.by, 1000); got != c.want {
			t.Errorf("%s: %d calls pass, want %d", c.name, got, c.want)
		}
	}
	r.calls = map[rated]*bucket{}
	for id := range int64(3 * ratedMax) {
		calls(person(id), 1)
	}
	if len(r.calls) > ratedMax {
		t.Errorf("%d callers are counted", len(r.calls))
	}
}

// TestSpaceRates: callers of one namespace share the calls of a minute. A smaller quota takes effect at once.
func TestSpaceRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rates{now: func() time.Time { return now }, spaces: map[string]*bucket{}}
	for _, c := range []struct {
		namespace string
		perMinute int64
		wait      time.Duration
		want      int
	}{{"shop", 60, 0, 60}, {"shop", 60, 0, 0}, {"web", 30, 0, 30}, {"shop", 60, 10 * time.Second, 10}, {"shop", 60, time.Hour, 60},
		{"shop", 600, time.Hour, 600}, {"shop", 600, 30 * time.Second, 300}, {"shop", 6, 30 * time.Second, 3}} {
		now = now.Add(c.wait)
		got := 0
		for range 1000 {
			if !r.spaceOver(c.namespace, c.perMinute) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%s at %d a minute after %s: %d calls pass, want %d", c.namespace, c.perMinute, c.wait, got, c.want)
		}
	}
}

// TestStreams: the streams of all sessions or tokens of a caller count together, and those of another caller
// do not. When a stream ends, the caller may open another one.
func TestStreams(t *testing.T) { synctest.Test(t, streams) }

func streams(t *testing.T) {
	r := &rates{now: time.Now, Rates: Rates{SessionStreams: 2, TokenStreams: 3}, open: map[rated]int{}}
	opens := func(c credential, n int) (closes []func()) {
		t.Helper()
		for range 100 {
			ctx, cancel := context.WithCancel(&call{Context: t.Context(), credential: c, rates: r})
			if err := OpenStream(ctx); err != nil {
				cancel()
				if !errors.Is(err, ErrStreams) {
					t.Fatal(err)
				}
				break
			}
			closes = append(closes, cancel)
		}
		if len(closes) != n {
			t.Errorf("%+v opens %d streams, want %d", c.token, len(closes), n)
		}
		return closes
	}
	person := func(id int64) credential {
		return credential{token: store.Token{Kind: kindUser, Principal: id}, session: &Session{}}
	}
	token := func(kind string, id int64) credential {
		return credential{token: store.Token{Kind: kind, Principal: id}}
	}
	closes := opens(person(1), 2)
	opens(person(1), 0)
	opens(credential{token: store.Token{Kind: kindUser, Principal: 1}}, 0) // passed on by another node
	opens(person(2), 2)
	opens(token(store.TokenAPI, 1), 3)
	opens(token(store.TokenWorker, 1), 100)
	opens(token(store.TokenNode, 1), 100)
	opens(credential{token: store.Token{Kind: kindLocal}, session: &Session{Local: true}}, 100)
	closes[0]()
	synctest.Wait()
	closes = append(closes[1:], opens(person(1), 1)...)
	for _, end := range closes {
		end()
	}
	synctest.Wait()
	if len(r.open) != 2 {
		t.Errorf("callers without a stream are kept: %v", r.open)
	}
}

// TestSharedRates checks the part of a bound that each node grants: the part that the caller does not use at
// the other nodes, and at least an equal part. So all nodes together keep the bound once they know each
// other's loads, and a node without other nodes grants the whole bound.
func TestSharedRates(t *testing.T) {
	now := time.Unix(1000, 0)
	gates, loads := make([]*Gate, 3), make([]*store.Load, 3)
	for i := range gates {
		others := func() (all []*store.Load) {
			for k := range loads {
				if k != i {
					all = append(all, loads[k])
				}
			}
			return all
		}
		gates[i] = &Gate{rates: rates{Rates: Rates{Tokens: 30, TokenStreams: 9}, now: func() time.Time { return now }, calls: map[rated]*bucket{},
			spaces: map[string]*bucket{}, open: map[rated]int{}, elsewhere: elsewhere{others: others}}}
	}
	who := credential{token: store.Token{Kind: store.TokenAPI, Principal: 7}}
	// second plays one second with calls at the busy nodes, and returns the number of accepted calls. After five
	// seconds, the nodes renew their rows.
	seconds := 0
	second := func(busy ...int) (passed int) {
		for range 10 {
			now = now.Add(time.Second / 10)
			for _, i := range busy {
				for range 100 {
					if !gates[i].rates.over(&who) {
						passed++
					}
					if !gates[i].rates.spaceOver("shop", 600) {
						continue
					}
				}
			}
		}
		if seconds++; seconds%5 == 0 {
			for i := range gates {
				loads[i] = gates[i].Load(&store.Load{})
			}
		}
		return passed
	}
	settle := func(want int, busy ...int) {
		t.Helper()
		for range 25 {
			second(busy...)
		}
		got := 0
		for range 5 {
			got += second(busy...)
		}
		if got < 5*want-10 || got > 5*want+10 {
			t.Errorf("nodes %v grant %d calls in 5 s, want %d", busy, got, 5*want)
		}
	}
	settle(30, 0)
	settle(30, 0, 1, 2)
	settle(30, 1)
	settle(30, 1, 2)
	gates[0].rates.open[rated{false, 7}] = 5
	loads[0], loads[1] = gates[0].Load(&store.Load{}), nil // a node of an earlier version does not report its load
	now = now.Add(2 * othersEach)
	if got := gates[2].rates.streams("token/7", 9, now); got != 4 {
		t.Errorf("with 5 of 9 streams at another node, %v are granted", got)
	}
	if n := len(loads[0].Callers); n != 1 {
		t.Errorf("%d callers are told: %+v", n, loads[0].Callers)
	}
}
