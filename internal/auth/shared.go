package auth

import (
	"cmp"
	"sort"
	"strconv"
	"time"

	"skein.dev/skein/internal/store"
)

// Nodes count the calls and streams of callers themselves, because a shared count would cost a call between
// nodes for each request. Instead, each node publishes in its row how much its callers use (Gate.Load). A
// node grants a caller the part of its bound that the caller does not use at the other nodes, but at least an
// equal part. So a caller of one node has the whole bound. If a caller uses all nodes, the sum meets the
// bound as soon as the nodes have read the rows of one another.

// OthersOf returns a function that returns the loads of the other present nodes, one for each node.
func OthersOf(view func() ([]store.Member, []store.ShardRow), self func() store.Handler) func() []*store.Load {
	return func() (all []*store.Load) {
		members, _ := view()
		for i := range members {
			if m := &members[i]; !m.Worker && m.Handler != self().ID {
				all = append(all, m.Load)
			}
		}
		return all
	}
}

// othersEach is the time for which a node uses the loads of the other nodes that it has read.
const othersEach = time.Second

// elsewhere holds the use of callers at the other nodes.
type elsewhere struct {
	others func() []*store.Load // nil if there are no other nodes
	read   time.Time
	nodes  int
	used   map[string]store.CallerUse
	mine   map[string]float64 // the rates at this node that were published last
}

// of returns what a caller uses at the other nodes.
func (x *elsewhere) of(name string, now time.Time) store.CallerUse {
	if x.others == nil {
		return store.CallerUse{}
	}
	if x.used == nil || now.Sub(x.read) >= othersEach || now.Before(x.read) {
		all := x.others()
		x.read, x.nodes, x.used = now, len(all), map[string]store.CallerUse{}
		for _, l := range all {
			if l == nil {
				continue
			}
			for _, c := range l.Callers {
				is := x.used[c.Name]
				x.used[c.Name] = store.CallerUse{Name: c.Name, Rate: is.Rate + max(c.Rate, 0), Streams: is.Streams + max(c.Streams, 0)}
			}
		}
	}
	return x.used[name]
}

// rate returns the part of a rate that this node grants to a caller now. The part moves only halfway from the
// caller's use at this node to the use that the other nodes leave free, because the other nodes change their
// parts at the same time.
func (x *elsewhere) rate(name string, bound float64, now time.Time) float64 {
	others := x.of(name, now).Rate
	if others == 0 {
		return bound
	}
	return max((x.mine[name]+bound-others)/2, bound/float64(1+x.nodes))
}

// streams returns the number of streams that this node grants to a caller now.
func (x *elsewhere) streams(name string, bound int, now time.Time) int {
	return max(bound-x.of(name, now).Streams, bound/(1+x.nodes), 1)
}

func (w rated) name() string {
	if w.session {
		return "session/" + strconv.FormatInt(w.principal, 10)
	}
	return "token/" + strconv.FormatInt(w.principal, 10)
}

func spaceName(namespace string) string { return "namespace/" + namespace }

// Load adds to the load of a node what its callers have used since the last call of Load. The membership
// calls it with each renewal.
func (g *Gate) Load(l *store.Load) *store.Load {
	if g == nil {
		return l
	}
	r := &g.rates
	r.mu.Lock()
	defer r.mu.Unlock()
	l.Callers = r.uses()
	return l
}

// uses returns the callers that use most. The caller holds the lock.
func (r *rates) uses() []store.CallerUse {
	now := r.now()
	passed := now.Sub(r.told).Seconds()
	all := map[string]store.CallerUse{}
	r.mine = make(map[string]float64, len(r.since))
	if !r.told.IsZero() && passed > 0 {
		for name, n := range r.since {
			r.mine[name] = float64(n) / passed
			all[name] = store.CallerUse{Name: name, Rate: r.mine[name]}
		}
	}
	for who, n := range r.open {
		is := all[who.name()]
		is.Name, is.Streams = who.name(), n
		all[is.Name] = is
	}
	r.told = now
	clear(r.since)
	list := make([]store.CallerUse, 0, len(all))
	for _, is := range all {
		list = append(list, is)
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Streams, a.Streams), cmp.Compare(a.Name, b.Name)) < 0
	})
	return list[:min(len(list), store.LoadMax)]
}

// note counts a call that this node has let through.
func (r *rates) note(name string) {
	if r.elsewhere.others == nil {
		return
	}
	if r.since == nil || len(r.since) >= ratedMax {
		r.since = map[string]int{}
	}
	r.since[name]++
}
