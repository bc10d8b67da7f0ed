package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// loadCommons makes the memory of rows and messages. It comes before a transaction, when all
// that this writer knows is in the store.
func (w *writer) loadCommons(ctx context.Context) error {
	g := &w.commons
	if g.loaded || w.held(store.GateShard) == nil {
		return nil
	}
	g.forget()
	w.aside = 0
	for after := ""; ; {
		page, err := w.e.store.Queues(ctx, after, loadPage)
		if err != nil {
			return fmt.Errorf("read the queues: %w", err)
		}
		for i := range page {
			after = page[i].Name
			g.queues[after] = &queue{Queue: page[i], lines: map[string]*line{}}
		}
		if len(page) < loadPage {
			break
		}
	}
	given, err := w.loadGrants(ctx)
	if err != nil {
		return err
	}
	if err := w.loadHolders(ctx, given); err != nil {
		return err
	}
	lines, err := w.e.store.Lines(ctx)
	if err != nil {
		return fmt.Errorf("read the lines: %w", err)
	}
	for i := range lines {
		g.await(&lines[i])
		w.aside += int(lines[i].Runs)
	}
	if g.loaded = true; w.e.cluster != nil {
		w.aside = 0 // their owners are not known
	} else {
		for _, r := range w.runs {
			if r.Claim.InLine() {
				w.aside--
			}
		}
	}
	return nil
}

// await notes a line of the store.
func (g *commons) await(is *store.Line) {
	c := claimOfLine(is.Name)
	l := g.lineOf(&c)
	l.levels[is.Level].more = true
	g.open[l.name] = true
}

// claimOfLine is a claim with the line's name.
func claimOfLine(name string) dag.Claim {
	queue, rest, _ := strings.Cut(name, "/")
	if queue == "" {
		return dag.Claim{Locks: []string{rest}}
	}
	return dag.Claim{Queue: queue, Key: rest}
}

// loadHolders takes in who has something: of a node that is alone from memory, which has all
// of them.
func (w *writer) loadHolders(ctx context.Context, given map[crewKey]dag.Share) error {
	g := &w.commons
	enroll := func(c *store.Claimant) {
		for _, s := range c.Shares {
			if g := given[crewKey{c.Run, s.Queue}]; g.Life == s.Life && g.Got > s.Got {
				s.Got, s.Limit, s.Asked = g.Got, g.Limit, max(g.Asked, s.Asked)
			}
			g.enroll(&crew{run: c.Run, shard: c.Shard, priority: c.Priority, share: s})
		}
	}
	if w.e.cluster == nil {
		for _, r := range w.runs {
			enroll(&store.Claimant{Run: r.ID, Shard: r.Shard, Priority: r.Priority, Shares: r.Shares()})
			if r.Claim.Holds() {
				g.adopt(&claimant{run: r.ID, shard: r.Shard, claim: r.Claim})
			}
		}
		return nil
	}
	for after := (dag.RunID{}); ; {
		page, err := w.e.store.Holding(ctx, after, loadPage)
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
				g.adopt(newClaimant(&page[i]))
			}
		}
	}
}

// newClaimant is one as the store knows it.
func newClaimant(is *store.Claimant) *claimant {
	claim := is.Claim
	return &claimant{run: is.Run, shard: is.Shard, claim: &claim}
}

// adopt takes in a claimant as its row has it, or as a grant that is on its way.
func (g *commons) adopt(c *claimant) {
	switch {
	case g.of[c.run] != nil: // its grant is on its way
	case c.claim.Stage == dag.ClaimAgain:
		c.line = g.lineOf(c.claim)
		g.enter(c)
		for _, name := range c.claim.Locks {
			g.hold(g.lockOf(name), c)
		}
	default:
		g.take(c)
	}
}

// fillWindows reads a page of waiting runs for each open queue whose window is nearly empty. It is called
// before a transaction, when the store knows every waiting run.
func (w *writer) fillWindows(ctx context.Context) error {
	g := &w.commons
	for name := range g.open {
		l := g.lines[name]
		if l == nil {
			continue
		}
		for p := range l.levels {
			if v := &l.levels[p]; v.more && len(v.list) < windowThin {
				if err := w.fillWindow(ctx, l, dag.Priority(p)); err != nil {
					return err
				}
			}
		}
		g.tidy(l)
	}
	return nil
}

func (w *writer) fillWindow(ctx context.Context, l *line, level dag.Priority) error {
	v := &l.levels[level]
	limit := max(v.page, windowFill)
	page, err := w.e.store.InLine(ctx, l.name, level, v.from, limit)
	if err != nil {
		return fmt.Errorf("read a line: %w", err)
	}
	for i := range page {
		if w.commons.of[page[i].Run] == nil { // or its grant is on its way
			if !w.commons.stand(newClaimant(&page[i])) {
				continue
			}
			for _, name := range page[i].Claim.Locks {
				w.commons.freed[name] = true // whether it is free is seen when all are there
			}
		}
	}
	w.commons.onward(l, level, page, len(page) == limit)
	return nil
}

// loadGrants takes in the grants that are on their way: their runs' rows do not say so yet. It returns
// the places for tasks among them.
// They are read before the rows: one that arrives in between is in the rows then.
func (w *writer) loadGrants(ctx context.Context) (given map[crewKey]dag.Share, err error) {
	if w.e.cluster == nil {
		return nil, nil
	}
	given = map[crewKey]dag.Share{}
	for _, s := range w.e.shards {
		page, err := w.e.store.Messages(ctx, s, grantsMax)
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
					k := crewKey{g.Run, g.Share.Queue}
					if was := given[k]; g.Share.Life > was.Life || g.Share.Life == was.Life && g.Share.Got > was.Got {
						given[k] = *g.Share
					}
				case g.Kind == wordGrant && g.Claim != nil:
					if err := w.loadGrant(ctx, g, s); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return given, nil
}

// loadGrant takes in a grant if its run still asks for it. One that does not has said that it
// left, perhaps to an owner before this one, and says it no second time.
func (w *writer) loadGrant(ctx context.Context, g *word, s dag.ShardID) error {
	row, err := w.e.store.Run(ctx, g.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read a run whose grant is on its way: %w", err)
	case asks(row.Claim, g.Claim.Asked) && w.commons.of[g.Run] == nil:
		w.commons.take(&claimant{run: g.Run, shard: s, claim: g.Claim})
	}
	return nil
}

// grantsMax bounds the messages that may wait for a shard when grants are looked for. An owner
// takes in a hundred at a time, and no limit lets through as many.
const grantsMax = 1_000_000
