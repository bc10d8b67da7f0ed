package home

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// roster keeps lenders with free slots in the order in which they lend. It finds the best lender for a
// placement without reading all of them. Lenders with equal traits fit the same placements, so they form one
// class, which is a heap. The caller of a method must hold the mutex of the roster's owner.
type roster[T any] struct {
	seat func(T) *seat[T]
	// before is the order of the lenders. If it is nil, the order is random.
	before func(a, b T) bool
	// exact says that a slot has exactly the resources that a placement needs. Otherwise the caller of pick
	// counts the resources.
	exact   bool
	classes map[string]*class[T]
	named   map[string][]T // lenders by name
	sites   map[dag.Place]*site[T]
}

// seat is the position of a lender in a roster.
type seat[T any] struct {
	class *class[T] // nil if the lender is not listed
	name  string
	at    int // the index in class.free; none if the lender has no free slot
}

const none = -1

// class holds the lenders with equal traits.
type class[T any] struct {
	of     *roster[T]
	key    string
	traits dag.Traits
	need   dag.Need         // the resources of each slot; zero for workers, whose resources are counted as a whole
	listed int              // the number of all lenders, including those without a free slot
	free   []T              // a heap
	fits   map[*site[T]]int // by site: the index of the class in the site's heap
}

// site holds a requested placement and the classes that fit it.
type site[T any] struct {
	place   dag.Place
	node    string // the name of the only lender that fits; "" if any lender of the classes fits
	need    dag.Need
	classes []*class[T] // a heap, by the first lender of each class
}

// sitesMax bounds the number of placements that are cached.
const sitesMax = 1024

func newRoster[T any](exact bool, seatOf func(T) *seat[T], before func(a, b T) bool) roster[T] {
	return roster[T]{seat: seatOf, before: before, exact: exact, classes: map[string]*class[T]{}, named: map[string][]T{}, sites: map[dag.Place]*site[T]{}}
}

// classKey returns a key that is equal for equal traits. It ignores Room and the used part of Room.
func classKey(t *dag.Traits, of string, n dag.Need) string {
	var b strings.Builder
	part := func(kind byte, text string) {
		b.WriteByte(kind)
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(':')
		b.WriteString(text)
	}
	part('o', of)
	for _, g := range slices.Sorted(slices.Values(t.Groups)) {
		part('g', g)
	}
	for _, k := range slices.Sorted(slices.Values(t.Kinds)) {
		part('k', k)
	}
	for _, x := range t.Extensions {
		part('x', x.Kind)
		part('v', x.Version)
	}
	for _, ns := range t.Namespaces {
		part('s', ns)
	}
	for _, level := range t.Levels {
		part('i', level)
	}
	for _, user := range t.Users {
		part('u', user)
	}
	labels := make([]string, 0, len(t.Labels))
	for k, v := range t.Labels {
		labels = append(labels, k+"="+v)
	}
	slices.Sort(labels)
	for _, l := range labels {
		part('l', l)
	}
	if !n.IsZero() {
		part('n', strconv.FormatInt(n.CPU, 10)+"/"+strconv.FormatInt(n.Memory, 10))
	}
	return b.String()
}

// enter lists a lender, at first without free slots. The parameter of separates lenders: two lenders with
// different values are never in the same class.
func (r *roster[T]) enter(x T, name, of string, t *dag.Traits, n dag.Need) {
	key := classKey(t, of, n)
	c := r.classes[key]
	if c == nil {
		c = &class[T]{of: r, key: key, traits: *t, need: n, fits: map[*site[T]]int{}}
		r.classes[key] = c
		for _, s := range r.sites {
			s.meet(c)
		}
	}
	c.listed++
	r.named[name] = append(r.named[name], x)
	*r.seat(x) = seat[T]{class: c, name: name, at: none}
}

// leave removes a lender from the list. It does nothing if the lender is not listed.
func (r *roster[T]) leave(x T) {
	s := r.seat(x)
	c := s.class
	if c == nil {
		return
	}
	r.update(x, false)
	if c.listed--; c.listed == 0 {
		delete(r.classes, c.key)
		for at, i := range c.fits {
			heap.Remove(at, i)
		}
	}
	left := slices.DeleteFunc(r.named[s.name], func(o T) bool { return r.seat(o) == s })
	if r.named[s.name] = left; len(left) == 0 {
		delete(r.named, s.name)
	}
	s.class = nil
}

// update must be called when the free slots of a lender, or its position in the order, have changed.
func (r *roster[T]) update(x T, free bool) {
	s, first := r.seat(x), false
	c := s.class
	switch {
	case c == nil, !free && s.at == none:
		return
	case !free:
		first = s.at == 0
		heap.Remove(c, s.at)
	case s.at == none:
		heap.Push(c, x)
		first = s.at == 0
	default:
		first = s.at == 0
		heap.Fix(c, s.at)
		first = first || s.at == 0
	}
	if !first || r.before == nil {
		return
	}
	for at, i := range c.fits {
		heap.Fix(at, i)
	}
}

// site returns the classes that fit a placement.
func (r *roster[T]) site(p dag.Place) *site[T] {
	s := r.sites[p]
	if s != nil {
		return s
	}
	if len(r.sites) >= sitesMax {
		clear(r.sites)
		for _, c := range r.classes {
			clear(c.fits)
		}
	}
	s = &site[T]{place: p, node: p.Node(), need: p.Need()}
	for _, c := range r.classes {
		s.meet(c)
	}
	r.sites[p] = s
	return s
}

// meet records whether a class fits the placement.
func (s *site[T]) meet(c *class[T]) {
	if s.node == "" && c.takes(s) && s.place.Fits("", &c.traits) {
		heap.Push(s, c)
	}
}

// takes reports whether a slot of the class has the resources that a placement needs.
func (c *class[T]) takes(s *site[T]) bool { return !c.of.exact || c.need == s.need }

// fits reports whether a listed lender fits a placement.
func (r *roster[T]) fits(x T, p dag.Place) bool {
	at, s := r.seat(x), r.site(p)
	if s.node != "" {
		return at.class != nil && at.name == s.node && at.class.takes(s) && p.Fits(at.name, &at.class.traits)
	}
	return at.class != nil && at.class.meets(s)
}

// meets reports whether a class fits a placement that names no lender.
func (c *class[T]) meets(s *site[T]) bool {
	_, fits := c.fits[s]
	return fits
}

// pick returns the lender that lends next for a placement, among those for which suits returns true. If suits
// is nil, all lenders qualify.
func (r *roster[T]) pick(p dag.Place, suits func(T) bool) (best T, found bool) {
	s := r.site(p)
	if s.node != "" {
		for _, x := range r.named[s.node] {
			if r.seat(x).at != none && r.fits(x, p) && (suits == nil || suits(x)) && (!found || r.sooner(x, best)) {
				best, found = x, true
			}
		}
		return best, found
	}
	if r.before == nil {
		return s.draw(suits)
	}
	if len(s.classes) == 0 || len(s.classes[0].free) == 0 {
		return best, false
	}
	if x := s.classes[0].free[0]; suits == nil || suits(x) {
		return x, true
	}
	for _, c := range s.classes {
		if x, is := c.first(suits); is && (!found || r.before(x, best)) {
			best, found = x, true
		}
	}
	return best, found
}

func (r *roster[T]) sooner(a, b T) bool { return r.before != nil && r.before(a, b) }

// first returns the lender of a class that lends next, among those for which suits returns true.
func (c *class[T]) first(suits func(T) bool) (best T, found bool) {
	if len(c.free) == 0 {
		return best, false
	}
	if suits == nil || suits(c.free[0]) {
		return c.free[0], true
	}
	for _, x := range c.free[1:] {
		if (!found || c.of.before(x, best)) && suits(x) {
			best, found = x, true
		}
	}
	return best, found
}

// draw picks a lender at random. Each has the same chance.
func (s *site[T]) draw(suits func(T) bool) (drawn T, found bool) {
	n := 0
	for _, c := range s.classes {
		n += len(c.free)
	}
	if n == 0 {
		return drawn, false
	}
	if drawn = s.nth(rand.IntN(n)); suits == nil || suits(drawn) { // usually the first drawn lender suits
		return drawn, true
	}
	n = 0
	for _, c := range s.classes {
		for _, x := range c.free {
			if !suits(x) {
				continue
			}
			if n++; rand.IntN(n) == 0 {
				drawn, found = x, true
			}
		}
	}
	return drawn, found
}

func (s *site[T]) nth(k int) (x T) {
	for _, c := range s.classes {
		if k < len(c.free) {
			return c.free[k]
		}
		k -= len(c.free)
	}
	return x
}

// Len, Less, Swap, Push and Pop make a class a heap.Interface.
func (c *class[T]) Len() int { return len(c.free) }

func (c *class[T]) Less(i, j int) bool { return c.of.sooner(c.free[i], c.free[j]) }

func (c *class[T]) Swap(i, j int) {
	c.free[i], c.free[j] = c.free[j], c.free[i]
	c.of.seat(c.free[i]).at, c.of.seat(c.free[j]).at = i, j
}

// Push implements heap.Interface.
func (c *class[T]) Push(x any) {
	c.of.seat(x.(T)).at = len(c.free)
	c.free = append(c.free, x.(T))
}

// Pop implements heap.Interface.
func (c *class[T]) Pop() any {
	last := len(c.free) - 1
	x := c.free[last]
	c.free = slices.Delete(c.free, last, last+1)
	c.of.seat(x).at = none
	return x
}

// Len, Less, Swap, Push and Pop make the classes of a site a heap.Interface.
func (s *site[T]) Len() int { return len(s.classes) }

func (s *site[T]) Less(i, j int) bool {
	a, b := s.classes[i], s.classes[j]
	return len(a.free) > 0 && (len(b.free) == 0 || a.of.sooner(a.free[0], b.free[0]))
}

func (s *site[T]) Swap(i, j int) {
	s.classes[i], s.classes[j] = s.classes[j], s.classes[i]
	s.classes[i].fits[s], s.classes[j].fits[s] = i, j
}

// Push implements heap.Interface.
func (s *site[T]) Push(x any) {
	c := x.(*class[T])
	c.fits[s] = len(s.classes)
	s.classes = append(s.classes, c)
}

// Pop implements heap.Interface.
func (s *site[T]) Pop() any {
	last := len(s.classes) - 1
	c := s.classes[last]
	s.classes = slices.Delete(s.classes, last, last+1)
	delete(c.fits, s)
	return c
}
