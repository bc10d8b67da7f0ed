package sim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/cluster"
	"skein.dev/skein/internal/registry"
)

// sessionTTL is the time to live of the sessions in a world's registry. The silence after which a missing
// member counts as dead must be shorter than the lag.
const sessionTTL = 1600 * time.Millisecond

// shelf is the registry of a world. It can be away, and it can lose all sessions. It can also give wrong
// answers: hide living members, list dead ones, or return an old list.
type shelf struct {
	w       *World
	expires map[string]int64 // end of each session, by UUID
	away    bool
	failing int              // percent of the calls that fail
	hidden  map[string]bool  // living members that are listed only to themselves
	undead  bool             // sessions that have ended are still listed
	ended   map[string]bool  // sessions that have ended; listed if undead is set
	old     map[string]int64 // an old list that is shown; nil shows the current one
	// missing holds, for each process, the members that the registry listed in an earlier answer to the
	// process and no longer lists, with the time since which they are missing.
	missing map[*life]map[string]int64
	seen    map[*life]map[string]bool
	// lost holds, for each process, whether a member had been missing for long enough at the process's last
	// question about it.
	lost map[*life]map[string]bool
}

func (s *shelf) open(w *World) {
	s.w = w
	s.expires, s.hidden, s.ended = map[string]int64{}, map[string]bool{}, map[string]bool{}
	s.missing, s.seen, s.lost = map[*life]map[string]int64{}, map[*life]map[string]bool{}, map[*life]map[string]bool{}
}

// judge returns the judge of a process, or nil if the world has no registry.
func (s *shelf) judge(l *life) cluster.Judge {
	if !s.w.stage.Registry {
		return nil
	}
	return &questioned{registry.NewJudge(registry.Config{Registry: desk{l}, TTL: sessionTTL, Host: l}), l}
}

// questioned is the judge of a process. At each question it records what the registry had told the process so
// far. The member may come back to the registry while the verdict is on its way to the store.
type questioned struct {
	*registry.Judge
	l *life
}

// Gone implements cluster.Judge.
func (q *questioned) Gone(uuid string) bool {
	s := &q.l.w.shelf
	since, missing := s.missing[q.l][uuid]
	if s.lost[q.l] == nil {
		s.lost[q.l] = map[string]bool{}
	}
	s.lost[q.l][uuid] = missing && float64(s.w.now-since) >= 0.95*float64(sessionTTL)/4
	return q.Judge.Gone(uuid)
}

// script schedules the faults of the registry.
func (s *shelf) script() {
	w := s.w
	if !w.stage.Registry {
		return
	}
	s.failing = w.rng.IntN(15)
	fault := func(name string, begin, end func()) {
		for range w.rng.IntN(3) {
			w.after(time.Duration(w.rng.Int64N(int64(w.swarm.active))), func() {
				w.count(name)
				w.tell("%s", name)
				begin()
				w.after(w.delay(2*lag), end)
			})
		}
	}
	fault("registry away", func() { s.away = true }, func() { s.away = false })
	fault("registry emptied", func() { clear(s.expires) }, func() {})
	fault("registry lists the dead", func() { s.undead = true }, func() { s.undead = false })
	fault("registry gives an old list", func() { s.old = maps.Clone(s.expires) }, func() { s.old = nil })
	fault("registry hides a living member", func() {
		if l := w.anyLife(); l != nil && l.member != nil {
			s.hidden[l.member.Self().UUID] = true
		}
	}, func() { clear(s.hidden) })
}

// heal makes the registry answer, and answer correctly.
func (s *shelf) heal() {
	s.away, s.failing, s.undead, s.old = false, 0, false, nil
	clear(s.hidden)
}

// lists reports whether the registry lists a member to other members.
func (s *shelf) lists(uuid string) bool {
	listed := s.expires
	if s.old != nil {
		listed = s.old
	}
	until, is := listed[uuid]
	switch {
	case s.hidden[uuid]:
		return false
	case s.undead && (is || s.ended[uuid]):
		return true
	}
	return is && (s.old != nil || until > s.w.now)
}

// lagOf returns the silence after which a process may declare a member dead. It is the lag, or less if the
// registry had told the process that the member is gone.
func (w *World) lagOf(l *life, p pulse) time.Duration {
	if p.quick && w.shelf.lost[l][p.uuid] {
		return registry.QuickOf(sessionTTL)
	}
	return lag
}

// desk is a process's connection to the registry.
type desk struct{ l *life }

var errDesk = errors.New("the registry is away")

// reach simulates the network between a process and the registry.
func (d desk) reach() error {
	s := &d.l.w.shelf
	if d.l.dead {
		return errDesk
	}
	s.w.pause(s.w.delay(50 * time.Millisecond))
	if d.l.dead || s.away || s.w.chance(s.failing) {
		return errDesk
	}
	return nil
}

// Announce implements registry.Registry.
func (d desk) Announce(_ context.Context, of registry.Life) (registry.Session, error) {
	if err := d.reach(); err != nil {
		return nil, err
	}
	s := &d.l.w.shelf
	s.expires[of.UUID] = s.w.now + int64(sessionTTL)
	s.missing[d.l], s.seen[d.l] = map[string]int64{}, map[string]bool{}
	return &seat{d, of.UUID}, nil
}

// Probe implements registry.Registry.
func (d desk) Probe(context.Context) (int, error) { return len(d.l.w.shelf.expires), d.reach() }

// seat is a session in the registry.
type seat struct {
	desk
	uuid string
}

// Renew implements registry.Session.
func (t *seat) Renew(context.Context) error {
	if err := t.reach(); err != nil {
		return err
	}
	s := &t.l.w.shelf
	if s.expires[t.uuid] <= s.w.now {
		delete(s.expires, t.uuid)
		s.ended[t.uuid] = true
		return registry.ErrEnded
	}
	s.expires[t.uuid] = s.w.now + int64(sessionTTL)
	return nil
}

// List implements registry.Session.
func (t *seat) List(context.Context) ([]string, error) {
	if err := t.reach(); err != nil {
		return nil, err
	}
	s := &t.l.w.shelf
	all := map[string]bool{}
	for _, known := range []map[string]int64{s.expires, s.old} {
		for uuid := range known {
			all[uuid] = true
		}
	}
	for uuid := range s.ended {
		all[uuid] = true
	}
	var list []string
	for uuid := range all {
		if s.lists(uuid) || uuid == t.uuid && s.hidden[uuid] && s.expires[uuid] > s.w.now {
			list = append(list, uuid)
		}
	}
	slices.Sort(list)
	seen, missing := s.seen[t.l], s.missing[t.l]
	for _, uuid := range list {
		seen[uuid] = true
		delete(missing, uuid)
	}
	for uuid := range seen {
		if _, is := missing[uuid]; !is && !slices.Contains(list, uuid) {
			missing[uuid] = s.w.now
		}
	}
	return list, nil
}

// Leave implements registry.Session.
func (t *seat) Leave(context.Context) error {
	if err := t.reach(); err != nil {
		return err
	}
	delete(t.l.w.shelf.expires, t.uuid)
	t.l.w.shelf.ended[t.uuid] = true
	return nil
}
