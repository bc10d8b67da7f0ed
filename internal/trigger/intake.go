package trigger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// intake is the progress of a trigger with a source of events.
type intake struct {
	Cursor   []byte     `json:"cursor,omitempty"`
	From     string     `json:"from,omitempty"` // "" means as the declaration says
	Since    dag.Micros `json:"since"`
	Taken    dag.Micros `json:"taken,omitempty"`
	Filtered int64      `json:"filtered,omitempty"`
	Lost     int64      `json:"lost,omitempty"`
	// Of is a hash of the data that the source reads. If an edit changes the hash, the cursor has no meaning
	// any more.
	Of string `json:"of"`
}

// source returns a hash of the part of the declaration that determines what the source reads.
func (d *declared) source() string {
	part := workflow.Trigger{Kind: d.Kind} // all events of kind event come from one log
	switch {
	case d.Poll != nil:
		is := *d.Poll
		is.Every = 0
		part.Poll = &is
	case d.Query != nil: // after an edit of the query, the source continues after the last row
		part.Query = &workflow.Query{Connection: d.Query.Connection, Cursor: d.Query.Cursor}
	case d.Object != nil:
		is := *d.Object
		is.Every, is.Secret = 0, ""
		part.Object = &is
	case d.Outside != nil:
		part.Outside = d.Outside.Read()
	}
	sum := sha256.Sum256(part.Encode())
	return hex.EncodeToString(sum[:8])
}

// beginIntake takes over the cursor of an earlier declaration with the same source.
func (d *declared) beginIntake(t *store.Trigger, now dag.Micros) {
	was, err := remembered(t)
	m := memory{Intake: &intake{Of: d.source(), Since: now}}
	if err == nil && was.Intake != nil && was.Intake.Of == m.Intake.Of {
		m.Intake = was.Intake
	}
	t.Data = m.pack()
}

// Position implements engine.Planner.
func (p *Planner) Position(t *store.Trigger) (engine.Position, error) {
	d, m, err := p.fed(t)
	if err != nil {
		return engine.Position{}, err
	}
	return m.position(t, d.Intake), nil
}

// Position returns how far the source of a trigger has come. in is the intake of its declaration. Position
// needs no Planner, so that a process that only reads the database can call it.
func Position(t *store.Trigger, in *workflow.Intake) (engine.Position, error) {
	m, err := remembered(t)
	if err != nil {
		return engine.Position{}, err
	}
	return m.position(t, in), nil
}

func (m memory) position(t *store.Trigger, in *workflow.Intake) engine.Position {
	is := m.Intake
	if is == nil {
		is = &intake{Since: t.Since}
	}
	pos := engine.Position{Cursor: is.Cursor, From: is.From, Since: is.Since, Taken: is.Taken, Filtered: is.Filtered, Lost: is.Lost}
	if pos.From == "" {
		pos.From = in.From
	}
	return pos
}

// Placed implements engine.Planner.
func (p *Planner) Placed(t *store.Trigger, pos engine.Position) ([]byte, error) {
	d, m, err := p.fed(t)
	if err != nil {
		return nil, err
	}
	m.Intake = &intake{Cursor: pos.Cursor, From: pos.From, Since: pos.Since, Taken: pos.Taken, Filtered: pos.Filtered, Lost: pos.Lost, Of: d.source()}
	if pos.From == d.Intake.From {
		m.Intake.From = ""
	}
	return m.pack(), nil
}

// fed reads the declaration and the memory of a trigger with a source of events.
func (p *Planner) fed(t *store.Trigger) (*declared, memory, error) {
	d, err := p.compiled(t)
	if err != nil {
		return nil, memory{}, err
	}
	if d.Intake == nil {
		return nil, memory{}, fmt.Errorf("%w: trigger %s of kind %s has no source with a cursor", errkind.ErrInvalid, t.Name, t.Kind)
	}
	m, err := remembered(t)
	if err == nil && m.Intake == nil {
		m.Intake = &intake{Of: d.source(), Since: t.Since}
	}
	return d, m, err
}

// Hears implements engine.Planner.
func (p *Planner) Hears(t *store.Trigger, b *engine.Batch, now dag.Micros) (engine.Hearing, error) {
	d, _, err := p.fed(t)
	if err != nil {
		return engine.Hearing{}, err
	}
	h := engine.Hearing{PauseLost: d.Intake.Lost == workflow.LostPause}
	passes, err := d.Intake.Filtering()
	if err != nil {
		return h, fmt.Errorf("trigger %s: %w", t.Name, err)
	}
	for i := range b.Events {
		ev := &b.Events[i]
		s := d.starting(instantOf(ev, now), ev.Key, store.Said(ev.Reason), ev.Value)
		outside, _, err := d.outside(s.Instant)
		if err != nil {
			return h, err
		}
		if ev.Value == nil {
			s.Reason = store.Because("event_unread", ev.Reason)
			h.Missed = append(h.Missed, s)
			continue
		}
		holds, err := passes(ev.Value)
		switch {
		case outside:
			h.Filtered++
		case err != nil:
			s.Reason = store.Because("event_failed", err.Error())
			h.Missed = append(h.Missed, s)
		case !holds:
			h.Filtered++
		default:
			h.Starts = append(h.Starts, s)
		}
	}
	if d.Intake.BatchMax > 0 {
		h.Starts = inBatches(h.Starts, int(d.Intake.BatchMax))
	}
	return h, nil
}

// instantOf returns the time of an event. If that time is outside of the range of schedules, it returns now.
func instantOf(ev *engine.Event, now dag.Micros) dag.Micros {
	if y := ev.At.Year(); ev.At.IsZero() || y < 1970 || y > 2199 {
		return now
	}
	return dag.Micro(ev.At)
}

// inBatches combines starts: at most a given number of them become one start, with the time of its newest
// event.
func inBatches(all []engine.Start, most int) []engine.Start {
	var out []engine.Start
	for len(all) > 0 {
		part := all[:min(most, len(all))]
		all = all[len(part):]
		is := part[0]
		event := struct {
			Items []json.RawMessage `json:"items"`
		}{}
		keys := sha256.New()
		for i := range part {
			is.Instant, is.StartBy = max(is.Instant, part[i].Instant), max(is.StartBy, part[i].StartBy)
			event.Items = append(event.Items, part[i].Event)
			fmt.Fprintf(keys, "%d %s", len(part[i].Key), part[i].Key)
		}
		is.Key, is.Event = "batch/"+hex.EncodeToString(keys.Sum(nil)[:16]), encode(event)
		is.Reason = store.Because("events", store.Number(int64(len(part))))
		out = append(out, is)
	}
	return out
}
