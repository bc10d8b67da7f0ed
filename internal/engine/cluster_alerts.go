package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// Alerts about the cluster belong to no workflow. Their incidents are rows of the first shard with workflow
// 0. Package oversee measures, the rules of a row decide, and the owner of the first shard writes.

// clusterWide is the workflow of incidents about the cluster.
const clusterWide dag.WorkflowID = 0

// overseen holds what the owner of the first shard keeps of its last observation.
type overseen struct {
	seen  bool
	rules *alert.ClusterRules
	// stood has the conditions that were true in the last observation, by key, with their causes, or nil if
	// there was no observation since the incidents were loaded.
	stood map[string]string
}

const (
	// dismissedFor is how long a new owner respects that a person has resolved an alert whose condition is
	// still true.
	dismissedFor = dag.Micros(24 * 3600 * 1_000_000)
	// overseeAgain is the delay of an escalation that was due before the first observation of this owner.
	overseeAgain = dag.Micros(5_000_000)
	// openingsMax bounds the conditions for which one observation searches earlier incidents. Each search is
	// a read, during which runs wait.
	openingsMax = 100
	// conditionOver is the reason for which an alert about the cluster ends.
	conditionOver = "the condition has ended"
	ruleGone      = "its rule no longer exists"
)

// Observe opens incidents for the conditions that are true, and resolves those whose condition has ended, in
// one transaction of the owner of the first shard. On other nodes it returns Elsewhere. If rules is nil, all
// incidents of the cluster are resolved.
func (n Incidents) Observe(ctx context.Context, rules *alert.ClusterRules, f *alert.Findings) error {
	return n.e.operate(ctx, nil, func(w *writer) answer { return answer{err: w.alerts.observe(rules, f)} })
}

func (a *alerts) observe(rules *alert.ClusterRules, f *alert.Findings) error {
	if err := a.here(store.GateShard); err != nil {
		return err
	}
	now, stood, reads := a.now(), map[string]string{}, 0
	standing, stays := rules.Standing(f)
	for i := range standing {
		stood[standing[i].Key] = standing[i].Finding.Cause
	}
	// resolved incidents come first, because they make room for new ones
	for _, key := range slices.Sorted(maps.Keys(a.open[clusterWide])) {
		is := a.open[clusterWide][key]
		switch {
		case rules.Named(is.Detail.Of) == nil:
			a.write(alert.Close(is, alert.Word{Reason: ruleGone, At: now}))
		case stands(stood, key):
		case stays[key] || f.Kept(is):
			stood[key] = is.Detail.Last.Cause
		default:
			a.write(alert.Close(is, alert.Word{Reason: conditionOver, At: now}))
		}
	}
	for i := range standing {
		s := &standing[i]
		if a.open[clusterWide][s.Key] != nil || a.stood(s) {
			continue
		}
		if reads >= openingsMax || !alert.Room(a.open[clusterWide], s.Rule.Name, s.Finding.Event) {
			delete(stood, s.Key) // a later observation opens the incident
			continue
		}
		reads++
		opens, err := a.opens(s, now)
		if err != nil {
			return err
		}
		if opens {
			a.write(s.Opens(a.newID(), now))
		}
	}
	a.overseen = overseen{seen: true, rules: rules, stood: stood}
	return nil
}

// stood reports whether the condition was also true in the last observation. In that case its incident was
// opened before. If a person has resolved the incident, it opens again only after the condition has ended
// once.
func (a *alerts) stood(s *alert.ClusterIncident) bool {
	cause, stood := a.overseen.stood[s.Key]
	return stood && cause == s.Finding.Cause
}

// opens reports whether a true condition opens an incident.
func (a *alerts) opens(s *alert.ClusterIncident, now dag.Micros) (bool, error) {
	row, err := a.store.LastIncident(context.Background(), clusterWide, s.Key)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, errkind.FromStore("look for incidents", err)
	}
	last, err := alert.Read(row)
	if err != nil { // the row is damaged, so it is ignored
		return true, nil
	}
	by := last.Detail.Resolved
	dismissed := a.overseen.stood == nil && s.Finding.Cause == "" && by != nil && by.By != "" && now-by.At < dismissedFor
	return !s.Told(last) && !dismissed, nil
}

func stands(stood map[string]string, key string) bool {
	_, is := stood[key]
	return is
}

// wokenCluster processes a moment of an incident about the cluster: an escalation is due, or a silence has
// ended.
func (a *alerts) wokenCluster(key string) {
	is := a.open[clusterWide][key]
	switch {
	case is == nil || a.held(store.GateShard) == nil:
	case !a.overseen.seen:
		a.push(moment{a.now() + overseeAgain, sighting{of: ruleOf{clusterWide, key}}})
	default:
		a.woken([]alert.Rule{*a.overseen.rules.AsRule(is)}, is, nil)
	}
}

// QueueAges returns, by queue, how long the first run has waited. A node that does not grant queue slots
// returns nothing.
func QueueAges(ctx context.Context, e *Engine) (map[string]time.Duration, error) {
	b, err := lookAtBacklog(ctx, e)
	if err != nil {
		return nil, err
	}
	all := map[string]time.Duration{}
	for name, at := range b.oldest {
		if at != 0 {
			all[name] = max(0, time.Duration(b.now-at)*time.Microsecond)
		}
	}
	return all, nil
}
