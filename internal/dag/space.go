package dag

import (
	"cmp"
	"slices"
)

// Space holds the demands of a run's namespace on the placements of the run's tasks. Only one goroutine at a
// time may use it. A nil Space demands nothing.
type Space struct {
	// Name is the namespace. It becomes a part of the placements that workers with Traits.Namespaces can fit.
	// It is "" if nodes of earlier versions are present, because these do not know this part.
	Name string
	// Isolation is the lowest level of isolation that a task may have, or "" if the namespace demands none.
	Isolation string
	// User is the Unix user of all tasks, or "" if workers choose one. With a user, Isolation is user or a
	// higher level.
	User string

	places map[Place]Place // cached results of the method Place, by the placement before the demands were added
}

// spacePlacesMax bounds the cached placements of a Space.
const spacePlacesMax = 1024

// Same reports whether two spaces make the same demands.
func (s *Space) Same(o *Space) bool {
	return s == o || s != nil && o != nil && s.Name == o.Name && s.Isolation == o.Isolation && s.User == o.User
}

// Place returns the placement of a task of the namespace whose own placement is p.
func (s *Space) Place(p Place) Place {
	if s == nil || s.Isolation == "" && (s.Name == "" || p == Anywhere) {
		return p
	}
	full, known := s.places[p]
	if known {
		return full
	}
	full = p.Isolated(s.Isolation)
	if s.Name != "" && (p.Node() != "" || p.Group() != "") && p.Space() == "" {
		full += Place(string(rune(placeSpace)) + s.Name + placeEnd)
	}
	if s.User != "" && p.User() == "" {
		full += Place(string(rune(placeUser)) + s.User + placeEnd)
	}
	if s.places == nil || len(s.places) >= spacePlacesMax {
		s.places = map[Place]Place{}
	}
	s.places[p] = full
	return full
}

// Space returns the namespace that the placement names, or "" if there is none.
func (p Place) Space() (namespace string) {
	p.each(func(kind byte, text string) bool {
		if kind == placeSpace {
			namespace = text
		}
		return namespace == ""
	})
	return namespace
}

// User returns the Unix user that the placement names, or "" if there is none.
func (p Place) User() (name string) {
	p.each(func(kind byte, text string) bool {
		if kind == placeUser {
			name = text
		}
		return name == ""
	})
	return name
}

// Place returns the placement of a task, with the demands of the run's namespace.
func (r *Run) Place(t TaskID) Place { return r.space.Place(r.Graph.Policy(t).Place) }

// House applies the demands of the namespace to the placements of a run's tasks. Ready tasks move to the
// lists of their new placements, in their order. The caller then updates the board.
func (s *Space) House(r *Run) {
	if r.space.Same(s) {
		r.space = s
		return
	}
	var ready []TaskID
	collect := func(l *readyList) {
		for i := range l.levels {
			for at := l.levels[i].first; at != 0; at = r.tasks[at-1].blockers {
				ready = append(ready, TaskID(at-1))
			}
		}
	}
	collect(&r.ready)
	for _, l := range r.placed {
		collect(&l.list)
	}
	for _, of := range r.shares {
		for _, l := range of.lists {
			collect(&l.list)
		}
	}
	// Tasks without a turn became ready before all others, in the order of their list.
	turns := make(map[TaskID]Rank, len(ready))
	for _, t := range ready {
		turns[t] = r.rank(t)
		r.unlist(t) // the first of its level, so this is fast
	}
	slices.SortStableFunc(ready, func(a, b TaskID) int { return cmp.Compare(turns[a].Turn, turns[b].Turn) })
	r.placed = slices.DeleteFunc(r.placed, func(l *line) bool { return l.seat.queue == nil })
	for _, of := range r.shares {
		of.lists = nil
	}
	r.space = s
	for _, t := range ready {
		since := r.tasks[t].since
		r.list(t)
		r.tasks[t].since = since
	}
}
