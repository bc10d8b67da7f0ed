package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"skein.dev/skein/internal/admission"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// loadAdmission builds the state of the admission owner from rows and messages. The caller calls it before a
// transaction, at a moment when the rows contain every change of this writer.
func (l *limits) loadAdmission(ctx context.Context) error {
	g := &l.admission
	if g.Loaded || l.held(store.GateShard) == nil {
		return nil
	}
	l.forgetAdmission()
	l.aside = 0
	for after := ""; ; {
		page, err := l.store.Queues(ctx, after, loadPage)
		if err != nil {
			return fmt.Errorf("read the queues: %w", err)
		}
		for i := range page {
			after = page[i].Name
			g.AddQueue(&page[i])
		}
		if len(page) < loadPage {
			break
		}
	}
	given, err := l.loadGrants(ctx)
	if err != nil {
		return err
	}
	if err := l.loadHolders(ctx, given); err != nil {
		return err
	}
	lines, err := l.store.Lines(ctx)
	if err != nil {
		return fmt.Errorf("read the lines: %w", err)
	}
	for i := range lines {
		g.AddLine(&lines[i])
		l.aside += int(lines[i].Runs)
	}
	if g.Loaded = true; !l.alone {
		l.aside = 0 // unknown, because runs of other nodes may be queued, too
	} else {
		for _, r := range l.inMemory() {
			if r.Claim.InLine() {
				l.aside--
			}
		}
	}
	return nil
}

// loadHolders adds the runs that hold queue slots or locks. A node on SQLite has all runs in memory, so it
// finds them there.
func (l *limits) loadHolders(ctx context.Context, given map[admission.CrewKey]dag.Share) error {
	g := &l.admission
	enroll := func(c *store.Claimant) {
		for _, s := range c.Shares {
			if g := given[admission.CrewKey{Run: c.Run, Queue: s.Queue}]; g.Life == s.Life && g.Got > s.Got {
				s.Got, s.Limit, s.Asked = g.Got, g.Limit, max(g.Asked, s.Asked)
			}
			g.Enroll(admission.Crew{Run: c.Run, Shard: c.Shard, Priority: c.Priority, Share: s})
		}
	}
	if l.alone {
		for _, r := range l.inMemory() {
			enroll(&store.Claimant{Run: r.ID, Shard: r.Shard, Priority: r.Priority, Shares: r.Shares()})
			if r.Claim.Holds() {
				g.Adopt(&admission.Claimant{Run: r.ID, Shard: r.Shard, Claim: r.Claim})
			}
		}
		return nil
	}
	for after := (dag.RunID{}); ; {
		page, err := l.store.Holding(ctx, after, loadPage)
		if err != nil {
			return fmt.Errorf("read what runs hold: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		for i := range page {
			after = page[i].Run
			enroll(&page[i])
			if page[i].Claim.Holds() {
				g.Adopt(admission.NewClaimant(&page[i]))
			}
		}
	}
}

// fillWindows reads the next waiting runs of each open queue whose window is nearly empty. The caller calls
// it before a transaction, at a moment when the rows contain every waiting run.
func (l *limits) fillWindows(ctx context.Context) error {
	return l.admission.Fill(func(at admission.Window) ([]store.Claimant, error) {
		page, err := l.store.InLine(ctx, at.Line, at.Level, at.From, at.Limit)
		if err != nil {
			return nil, fmt.Errorf("read a line: %w", err)
		}
		return page, nil
	})
}

// loadGrants adds the grants that are still in messages, so that the rows of their runs do not show them yet.
// It returns the grants of queue slots for tasks. It must be called before the rows are read, so that a grant
// that arrives in between is in the rows.
func (l *limits) loadGrants(ctx context.Context) (given map[admission.CrewKey]dag.Share, err error) {
	if l.alone {
		return nil, nil
	}
	given = map[admission.CrewKey]dag.Share{}
	for _, s := range l.shards {
		page, err := l.store.Messages(ctx, s, grantsMax)
		if err != nil {
			return nil, fmt.Errorf("read the messages to shard %d: %w", s, err)
		}
		for i := range page {
			var letters []letter
			if page[i].From != store.GateShard || json.Unmarshal(page[i].Payload, &letters) != nil {
				continue
			}
			for j := range letters {
				g := letters[j].Word
				switch {
				case g == nil:
				case g.Kind == wordGave && g.Share != nil:
					k := admission.CrewKey{Run: g.Run, Queue: g.Share.Queue}
					if was := given[k]; g.Share.Life > was.Life || g.Share.Life == was.Life && g.Share.Got > was.Got {
						given[k] = *g.Share
					}
				case g.Kind == wordGrant && g.Claim != nil:
					if err := l.loadGrant(ctx, g, s); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return given, nil
}

// loadGrant adds a grant if its run still waits for it. A run that no longer waits has already sent a message
// about that, perhaps to an earlier owner, and does not send it again.
func (l *limits) loadGrant(ctx context.Context, g *word, s dag.ShardID) error {
	row, err := l.store.Run(ctx, g.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read a run whose grant is on its way: %w", err)
	case asks(row.Claim, g.Claim.Asked):
		l.admission.Promise(&admission.Claimant{Run: g.Run, Shard: s, Claim: g.Claim})
	}
	return nil
}

// grantsMax bounds the messages of a shard that are searched for grants. A shard never has a million
// undelivered grants: its owner receives a hundred messages at a time, and the limits grant far fewer slots
// at once.
const grantsMax = 1_000_000
