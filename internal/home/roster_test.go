package home

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// lender is one lender in the roster under test.
type lender struct {
	seat   seat[*lender]
	name   string
	traits dag.Traits
	need   dag.Need
	key    int // its position in the order of lenders
	free   bool
	listed bool
}

// TestRoster: whatever lenders enter, leave and change, a roster picks the same lender as a search of all
// lenders would.
func TestRoster(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		exact := seed%2 == 1
		before := func(a, b *lender) bool { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.name, b.name)) < 0 }
		r := newRoster(exact, func(x *lender) *seat[*lender] { return &x.seat }, before)
		needs := []dag.Need{{}, {CPU: 500}, {CPU: 500, Memory: 1 << 20}}
		all := make([]*lender, 60)
		for i := range all {
			all[i] = &lender{name: fmt.Sprint("w", i)}
		}
		places := []dag.Place{dag.Anywhere, dag.NewPlace("", "g1", nil), dag.NewPlace("", "g1", map[string]string{"zone": "a"}), dag.NewPlace("w7", "", nil),
			dag.NewPlace("w8", "g0", nil), dag.Anywhere.OfKind("k0"), dag.NewPlace("", "g0", nil).OfKind("k1"), dag.NewPlace("", "nowhere", nil)}
		for _, space := range []dag.Space{{Name: "shop"}, {Isolation: "fence"}, {Name: "shop", Isolation: "user", User: "etl"}} {
			places = append(places, space.Place(dag.Anywhere), space.Place(places[1]), space.Place(places[3]))
		}
		for range 3000 {
			x := all[rng.IntN(len(all))]
			switch rng.IntN(6) {
			case 0:
				if r.leave(x); x.listed {
					x.listed, x.free = false, false
				}
			case 1:
				if !x.listed {
					x.traits = dag.Traits{Groups: []string{fmt.Sprint("g", rng.IntN(2))}, Room: dag.Need{CPU: int64(rng.IntN(9))}}
					if rng.IntN(3) == 0 {
						x.traits.Labels = map[string]string{"zone": string(rune('a' + rng.IntN(2)))}
					}
					if rng.IntN(3) == 0 {
						x.traits.Kinds = []string{fmt.Sprint("k", rng.IntN(2))}
					}
					if rng.IntN(3) == 0 {
						x.traits.Levels = [][]string{{"none", "user"}, {"box"}}[rng.IntN(2)]
					}
					if rng.IntN(3) == 0 {
						x.traits.Users = [][]string{{"etl"}, {"ann", "etl"}, {"ann"}}[rng.IntN(3)]
					}
					if rng.IntN(3) == 0 {
						x.traits.Namespaces = [][]string{{"shop"}, {"web"}}[rng.IntN(2)]
					}
					if x.need = (dag.Need{}); exact {
						x.need = needs[rng.IntN(len(needs))]
					}
					x.listed = true
					r.enter(x, x.name, "", &x.traits, x.need)
				}
			default:
				if x.listed {
					x.free, x.key = rng.IntN(3) > 0, rng.IntN(10)
					r.update(x, x.free)
				}
			}
			p := places[rng.IntN(len(places))].With(needs[rng.IntN(len(needs))])
			var suits func(*lender) bool
			if odd := rng.IntN(2); rng.IntN(3) == 0 {
				suits = func(x *lender) bool { return x.key%2 == odd }
			}
			want := lookAtAll(all, p, exact, suits, before)
			got, found := r.pick(p, suits)
			if found != (want != nil) || got != want {
				t.Fatalf("seed %d, %v: picked %v, want %v", seed, p, got, want)
			}
			if found && !r.fits(got, p) {
				t.Fatalf("seed %d: %s is picked for %v and does not fit it", seed, got.name, p)
			}
		}
		for _, x := range all {
			r.leave(x)
		}
		if len(r.classes)+len(r.named) != 0 || slices.ContainsFunc(places, func(p dag.Place) bool { return len(r.site(p).classes) > 0 }) {
			t.Fatalf("seed %d: %d classes and %d names are left", seed, len(r.classes), len(r.named))
		}
	}
}

func lookAtAll(all []*lender, p dag.Place, exact bool, suits func(*lender) bool, before func(a, b *lender) bool) (best *lender) {
	for _, x := range all {
		if x.listed && x.free && p.Fits(x.name, &x.traits) && (!exact || x.need == p.Need()) && (suits == nil || suits(x)) && (best == nil || before(x, best)) {
			best = x
		}
	}
	return best
}

// TestRosterAtRandom: without an order each lender that fits and suits is drawn, and no other.
func TestRosterAtRandom(t *testing.T) {
	t.Parallel()
	r := newRoster(false, func(x *lender) *seat[*lender] { return &x.seat }, nil)
	for i := range 12 {
		x := &lender{name: fmt.Sprint("w", i), key: i, traits: dag.Traits{Groups: []string{fmt.Sprint("g", i%3)}}}
		r.enter(x, x.name, "", &x.traits, dag.Need{})
		r.update(x, i < 9)
	}
	drawn := map[string]int{}
	for range 10_000 {
		x, found := r.pick(dag.Anywhere, func(x *lender) bool { return x.key%2 == 0 })
		if !found {
			t.Fatal("nothing is drawn")
		}
		drawn[x.name]++
	}
	for i := range 12 {
		if name := fmt.Sprint("w", i); (drawn[name] > 0) != (i < 9 && i%2 == 0) {
			t.Errorf("%s was drawn %d times", name, drawn[name])
		}
	}
}

// checkRoster compares the roster of lenders with the workers. The caller must hold h.mu.
func (h *Home) checkRoster() error {
	for _, w := range h.all() {
		free := w.open() && (w.local && h.spare > 0 || !w.local && w.used < int(w.member.Slots))
		s := h.lenders.seat(w)
		if s.class == nil || (s.at != none) != free || free && s.class.free[s.at] != w {
			return fmt.Errorf("worker %s (%d of %d used, open %v) has the seat %+v", w.member.Name, w.used, w.member.Slots, w.open(), *s)
		}
	}
	return nil
}

// market returns a home with workers but without a node. It can only lend slots.
func market(tb testing.TB, strategy string, workers int, traits func(i int) store.Traits) *Home {
	tb.Helper()
	h := New(Config{Directory: nowhere{}, Strategy: strategy})
	for i := range workers {
		h.admit(newWorker(store.Member{Handler: dag.HandlerID(i + 2), Name: fmt.Sprint("w", i), Slots: 10, Lease: 1, Worker: true, Traits: traits(i)}))
	}
	return h
}

// TestLentByDemand: slots are lent for the most urgent demand first, in turn among workers that lent equally
// often, and only by workers that fit the demand. The roster is right after each step.
func TestLentByDemand(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{LeastLoaded, RoundRobin, Random} {
		rng := rand.New(rand.NewPCG(3, 4))
		h := market(t, strategy, 40, func(i int) store.Traits {
			return store.Traits{Groups: []string{fmt.Sprint("g", i%4)}, Room: dag.Need{CPU: int64(i%5) * 1000}}
		})
		places := []dag.Place{dag.Anywhere, dag.NewPlace("", "g1", nil), dag.NewPlace("w3", "", nil), dag.NewPlace("", "g2", nil).With(dag.Need{CPU: 1500})}
		for step := range 2000 {
			owner := dag.HandlerID(1 + rng.IntN(3))
			a := &ask{Owner: owner}
			for i, p := range places {
				if rng.IntN(2) == 0 {
					a.Demands = append(a.Demands, engine.Demand{Place: p, N: 1 + rng.IntN(20), Created: dag.Micros(rng.IntN(9)), Run: dag.RunID{byte(i)}, Aged: rng.IntN(5) == 0})
				}
			}
			for _, w := range h.workers {
				for at, acc := range w.accounts {
					if at.owner == owner && acc.idle() > 0 && rng.IntN(2) == 0 {
						a.Returned = append(a.Returned, total{w.member.Handler, 1, acc.returned + acc.idle(), at.need})
					}
				}
			}
			if err := h.Ask(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if err := h.checkRoster(); err != nil {
				t.Fatalf("%s, step %d: %v", strategy, step, err)
			}
			if err := h.unserved(); err != nil {
				t.Fatalf("%s, step %d: %v", strategy, step, err)
			}
		}
	}
}

// unserved returns an error if a demand fits a free slot of a worker.
func (h *Home) unserved() (err error) {
	aged := h.aged()
	for _, w := range h.workers {
		if w.seat.at == none {
			continue
		}
		for id, x := range h.wants {
			for i := range x.demands {
				d := demand{&x.demands[i], x.needs[i], id, i, x.served[i]}
				if x.served[i] < d.N && d.Place.Fits(w.member.Name, &w.member.Traits) && w.gives(&d, h.kept(w, aged)) {
					// If demands have waited long, a slot may be left free, because resources are reserved
					// for such a demand.
					if len(aged) == 0 {
						err = fmt.Errorf("%s has a slot free that %d wants for %q", w.member.Name, id, d.Place)
					}
				}
			}
		}
	}
	return err
}

// TestOverdueCallsAreGivenUp: a call whose caller no longer waits has no effect; the caller repeats it.
func TestOverdueCallsAreGivenUp(t *testing.T) {
	t.Parallel()
	h := market(t, "", 2, func(int) store.Traits { return store.Traits{} })
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Ask(over, &ask{Owner: 1, Demands: []engine.Demand{{Place: dag.Anywhere, N: 5}}}); err == nil || len(h.wants) != 0 {
		t.Errorf("an Ask that nobody waits for: %v, %d wants", err, len(h.wants))
	}
	if err := h.welcome(over, newWorker(store.Member{Handler: 9, Name: "late", Slots: 1})); err == nil || h.workers[9] != nil {
		t.Errorf("a registration that nobody waits for: %v, it is attached: %v", err, h.workers[9] != nil)
	}
}

// BenchmarkGrant lends one slot and returns it. The workers are nearly all busy, or nearly all free.
func BenchmarkGrant(b *testing.B) {
	for _, workers := range []int{50, 1000, 3000} {
		for _, kind := range []string{"alike", "each its own label", "cpu"} {
			b.Run(fmt.Sprintf("%d %s", workers, kind), func(b *testing.B) {
				h := market(b, "", workers, func(i int) store.Traits {
					switch kind {
					case "cpu":
						return store.Traits{Room: dag.Need{CPU: 4000}}
					case "alike":
						return store.Traits{}
					}
					return store.Traits{Labels: map[string]string{"host": fmt.Sprint(i)}}
				})
				n := dag.Need{}
				if kind == "cpu" {
					n.CPU = 3000 // the first worker has no cpu left, so other workers are tried
				}
				one := []engine.Demand{{Place: dag.Anywhere.With(n), N: 1}}
				returned := map[dag.HandlerID]int64{}
				for b.Loop() {
					_ = h.Ask(b.Context(), &ask{Owner: 1, Demands: one})
					for w := range h.owed {
						id := w.member.Handler
						returned[id]++
						_ = h.Ask(b.Context(), &ask{Owner: 1, Returned: []total{{id, 1, returned[id], n}}})
					}
					clear(h.owed)
				}
			})
		}
	}
}
