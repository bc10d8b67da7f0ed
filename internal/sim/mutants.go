package sim

import "skein.dev/skein/internal/store/memory"

// Mutant is a known bug, played from outside.
type Mutant struct {
	Name string
	Draw func(*swarm)
	View func(l *life, st *memory.Store) database
}

func (m *Mutant) store(l *life, st *memory.Store) database {
	if m == nil || m.View == nil {
		return st
	}
	return m.View(l, st)
}

func (m *Mutant) cluster(l *life, st *memory.Store) database { return m.store(l, st) }
