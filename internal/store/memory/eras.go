package memory

import (
	"context"
	"maps"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Eras = (*Store)(nil)

// eras implements store.Eras for the store that embeds it.
type eras struct {
	s *Store
	// timeline is the timeline of the database server that the store simulates. It rises when the store goes
	// back to an earlier state, and is not reset by that.
	timeline int64
	began    int64   // the timeline of the server when the present era began
	ends     []ended // the eras that ended quietly, in their order
}

// ended is an era that ended because the next one began quietly, and the marks at that time.
type ended struct {
	era   dag.Era
	marks []store.Fence
}

// Marks implements store.Eras.
func (e eras) Marks(ctx context.Context) (all []store.Fence, err error) {
	s := e.s
	return all, s.read(ctx, Members, func() error {
		all = marksOf(s)
		return nil
	})
}

func marksOf(s *Store) (all []store.Fence) {
	for i := range s.shards {
		all = append(all, store.Fence{Shard: dag.ShardID(i), Epoch: s.shards[i].epoch, Seq: s.shards[i].seq})
	}
	return all
}

// EndOf implements store.Eras.
func (e eras) EndOf(ctx context.Context, era dag.Era) (marks []store.Fence, err error) {
	return marks, e.s.read(ctx, Members, func() error {
		for _, end := range e.s.eras.ends {
			if end.era >= era && marks == nil {
				marks = slices.Clone(end.marks)
			}
		}
		return nil
	})
}

// Raise implements store.Eras.
func (e eras) Raise(ctx context.Context, from, to dag.Era, letter []byte) (is dag.Era, err error) {
	s := e.s
	err = s.member(ctx, func() error {
		marks := marksOf(s)
		if is = store.EraOf(marks); is != from || to == from && store.FloorOf(marks) == to {
			return nil
		}
		is = to
		for i := range s.shards {
			if s.shards[i].epoch = int64(to) * store.EpochsOfEra; to == from {
				s.shards[i].epoch = store.EpochOf(to, to)
			}
			if len(letter) > 0 {
				s.lastID++
				s.messages = append(s.messages, store.Message{ID: s.lastID, From: dag.ShardID(i), To: dag.ShardID(i), Payload: slices.Clone(letter), Created: s.clock()})
			}
		}
		return nil
	})
	return is, err
}

// Timeline returns the timeline of the server that the store simulates. All connections end when it changes.
func Timeline(s *Store) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.eras.timeline
}

// Settle begins an era quietly if the store has gone back since the present era began. A real connection does
// the same before it writes. known is the greatest era that the caller has read.
func Settle(s *Store, known dag.Era) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &s.eras
	if e.began == e.timeline {
		return
	}
	marks := marksOf(s)
	era := store.EraOf(marks)
	to := store.NextEra(era, known, e.began, e.timeline)
	e.ends = append(e.ends, ended{to - 1, marks})
	for i := range s.shards {
		s.shards[i].epoch = store.EpochOf(to, store.FloorOf(marks))
	}
	e.began = e.timeline
}

// Saved is the content of a store at an instant.
type Saved struct{ is *Store }

// Save copies the present content of the store, for GoBack.
func Save(s *Store) *Saved {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &Saved{copied(s)}
}

// GoBack returns the store to an earlier state, like a failover to a standby that lacks the last
// transactions. Numbers of handlers and messages are not used again, because a real server takes them from
// sequences, whose values it logs ahead.
func GoBack(s *Store, to *Saved) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := copied(to.is)
	s.eras.timeline++
	s.eras.began, s.eras.ends = is.eras.began, is.eras.ends
	s.shards, s.members, s.orders, s.runs, s.all, s.active = is.shards, is.members, is.orders, is.runs, is.all, is.active
	s.byWorkflow, s.byUser, s.byKey, s.workflows, s.names, s.versions = is.byWorkflow, is.byUser, is.byKey, is.workflows, is.names, is.versions
	s.requests, s.messages, s.logs, s.tokens, s.queues, s.classes = is.requests, is.messages, is.logs, is.tokens, is.queues, is.classes
	s.schedules, s.rights.is, s.sessions.all = is.schedules, is.rights.is, is.sessions.all
	s.secrets.key, s.secrets.all, s.connections.all, s.gitSources.all = is.secrets.key, is.secrets.all, is.connections.all, is.gitSources.all
	s.sentEvents.log, s.sentEvents.last, s.sentEvents.received, s.sentEvents.known = is.sentEvents.log, is.sentEvents.last, is.sentEvents.received, nil
	s.audits.all, s.audits.tree = is.audits.all, is.audits.tree
	s.channels, s.incidents, s.notices, s.silences, s.alerts.rules = is.channels, is.incidents, is.notices, is.silences, is.alerts.rules
	s.namespaces.rows, s.namespaces.uses, s.namespaces.kept = is.namespaces.rows, is.namespaces.uses, is.namespaces.kept
	s.tallies.counts, s.tallies.marks = is.tallies.counts, is.tallies.marks
	s.exported = is.exported
}

// copied returns a store with the same rows. Both stores share the bytes behind rows, which are never changed
// in place.
func copied(s *Store) *Store {
	c := &Store{eras: eras{began: s.eras.began, ends: slices.Clone(s.eras.ends)}, shards: slices.Clone(s.shards), members: maps.Clone(s.members), orders: slices.Clone(s.orders), runs: map[dag.RunID]*run{},
		all: slices.Clone(s.all), byWorkflow: map[dag.WorkflowID]*ids{}, byUser: map[string]*ids{}, byKey: maps.Clone(s.byKey),
		workflows: maps.Clone(s.workflows), names: maps.Clone(s.names), versions: eachCloned(s.versions), requests: maps.Clone(s.requests),
		messages: slices.Clone(s.messages), logs: eachCloned(s.logs), tokens: slices.Clone(s.tokens), queues: maps.Clone(s.queues),
		classes: maps.Clone(s.classes), schedules: schedules{triggers: maps.Clone(s.triggers), ledger: eachCloned(s.ledger),
			backfills: maps.Clone(s.backfills), backfillRuns: eachCloned(s.backfillRuns)}, rights: rights{is: s.rights.is}, sessions: sessions{all: slices.Clone(s.sessions.all)},
		secrets: secrets{key: s.secrets.key, all: s.secrets.all.clone()}, audits: audits{all: slices.Clone(s.audits.all), tree: s.audits.tree},
		alerts:      alerts{channels: s.channels.clone(), incidents: slices.Clone(s.incidents), notices: slices.Clone(s.notices), silences: slices.Clone(s.silences), rules: slices.Clone(s.alerts.rules)},
		connections: connections{all: s.connections.all.clone()},
		gitSources:  gitSources{all: s.gitSources.all.clone()},
		sentEvents:  sentEvents{log: slices.Clone(s.sentEvents.log), last: s.sentEvents.last, received: s.sentEvents.received},
		namespaces:  namespaces{rows: s.namespaces.rows, uses: s.namespaces.uses, kept: s.namespaces.kept},
		tallies:     tallies{counts: maps.Clone(s.tallies.counts), marks: maps.Clone(s.tallies.marks)},
		traces:      traces{exported: maps.Clone(s.exported)}}
	for _, list := range s.active {
		c.active = append(c.active, slices.Clone(list))
	}
	for id, r := range s.runs {
		c.runs[id] = &run{row: r.row, attempts: slices.Clone(r.attempts), events: slices.Clone(r.events)}
	}
	for k, list := range s.byWorkflow {
		all := slices.Clone(*list)
		c.byWorkflow[k] = &all
	}
	for k, list := range s.byUser {
		all := slices.Clone(*list)
		c.byUser[k] = &all
	}
	return c
}

func eachCloned[K comparable, V any](m map[K][]V) map[K][]V {
	c := maps.Clone(m)
	for k, list := range c {
		c[k] = slices.Clone(list)
	}
	return c
}
