package auth

import (
	"testing"
	"time"

	"skein.dev/skein/internal/store"
)

// TestRates: a caller has a burst and then so many calls a second, and takes nothing from another one. The
// token of the start, workers and nodes are not bounded.
func TestRates(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &rates{Rates: Rates{Sessions: 10, Tokens: 5}, now: func() time.Time { return now }, of: map[rated]*bucket{}, spaces: map[string]*bucket{}}
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
	r.of = map[rated]*bucket{}
	for id := range int64(3 * ratedMax) {
		calls(person(id), 1)
	}
	if len(r.of) > ratedMax {
		t.Errorf("%d callers are counted", len(r.of))
	}
}

// TestSpaceRates: callers of one namespace share the calls of a minute, and a smaller quota counts at once.
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
