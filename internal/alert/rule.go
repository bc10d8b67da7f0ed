package alert

import (
	"encoding/json"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
)

// Event is something that a rule can watch.
type Event string

// The events.
const (
	Failed    Event = "failed"    // a run failed
	Stopped   Event = "stopped"   // a run was stopped
	Skipped   Event = "skipped"   // a run ended as skipped, before any of its tasks started
	Missed    Event = "missed"    // an instant of a trigger has no run, or its run began too late and was skipped
	Succeeded Event = "succeeded" // a run succeeded; it also resolves incidents
	Late      Event = "late"      // a run or an instant has passed its deadline
	Slow      Event = "slow"      // a run takes longer than usual
	Orphan    Event = "orphan"    // work outside of a task's process was not released; only a person resolves it
)

// Rule is a rule of a workflow, in the form of the stored definition.
type Rule struct {
	Name     string   `json:"name"`
	On       []Event  `json:"on"`
	To       []string `json:"to"`       // channels
	Severity string   `json:"severity"` // info | warning | error | critical
	// The incident opens at this number of events in a row; 0 means at the first event.
	After   int64    `json:"after,omitempty"`
	Each    bool     `json:"each,omitempty"`   // every event is a separate incident, which ends at once
	Origin  []string `json:"origin,omitempty"` // origins of the runs; empty means all except backfills
	Tags    []Tag    `json:"tags,omitempty"`   // only runs that have all of these tags
	Tasks   []string `json:"tasks,omitempty"`  // names, with * and ?, of the tasks that events are about
	Message string   `json:"message,omitempty"`
	// GroupBy are the keys by which events are grouped: cause, trigger or tag:KEY. Each group has an incident.
	GroupBy []string `json:"group_by,omitempty"`
	of      string   // name of the rule, in a copy for one group
	// A rule with one of these watches the times of runs, and its On is [late] or [slow].
	Deadline *Deadline `json:"deadline,omitempty"`
	Than     *Than     `json:"than,omitempty"`
	// Escalate lists further channels, the earliest first. They are notified if the incident is neither
	// acknowledged nor ended by then.
	Escalate []Rung `json:"escalate,omitempty"`
}

// Rules reads the rules of a stored definition.
func Rules(def []byte) ([]Rule, error) {
	var d struct {
		Alerts []Rule `json:"alerts"`
	}
	if len(def) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(def, &d); err != nil {
		return nil, fmt.Errorf("alerts of a definition: %w", err)
	}
	for i := range d.Alerts {
		if err := d.Alerts[i].ready(); err != nil {
			return nil, err
		}
	}
	return d.Alerts, nil
}

// Tag is a tag by which a rule selects runs.
type Tag struct {
	Key   string `json:"k"`
	Value string `json:"v"`
}

// watches reports whether the rule watches an event.
func (r *Rule) watches(h *Happening) bool {
	return r.Covers(h.Origin, h.Tags) && slices.Contains(r.On, h.Event) && r.ofTask(h)
}

// Covers reports whether the rule applies to runs of an origin with these tags.
func (r *Rule) Covers(o dag.Origin, tags dag.Tags) bool {
	for _, t := range r.Tags {
		if tags.Value(t.Key) != t.Value {
			return false
		}
	}
	if len(r.Origin) == 0 {
		return o != dag.OriginBackfill
	}
	return slices.Contains(r.Origin, string(o))
}
