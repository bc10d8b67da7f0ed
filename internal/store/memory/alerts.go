package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Alerts = (*Store)(nil)

// alerts implements store.Alerts for the store that embeds it. The bytes behind its rows are never changed
// in place.
type alerts struct {
	s         *Store
	channels  named[store.AlertChannel]
	incidents []store.Incident // sorted by ID
	notices   []store.Notice   // sorted by incident, seq and channel
	silences  []store.Silence
	rules     []store.AlertRules // sorted by namespace
	lost      []store.LostMember // sorted by name
}

func newAlerts(s *Store) alerts {
	return alerts{s: s, channels: named[store.AlertChannel]{what: "channel", of: func(c *store.AlertChannel) (string, string) { return c.Namespace, c.Name }}}
}

func byIncident(n store.Incident, id uuid.UUID) int { return bytes.Compare(n.ID[:], id[:]) }

func compareNotices(a, b store.Notice) int {
	return cmp.Or(bytes.Compare(a.Incident[:], b.Incident[:]), cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Channel, b.Channel))
}

func (x *tx) putIncident(n *store.Incident) error {
	what := "incident " + n.ID.String()
	if err := checkTexts(what, n.Namespace, n.Rule, n.State); err != nil {
		return err
	}
	if err := checkSize(what, len(n.Data)); err != nil {
		return err
	}
	if err := x.fenced(n.Shard, what); err != nil {
		return err
	}
	e := &x.s.alerts
	old := e.incidents
	i, there := slices.BinarySearchFunc(old, n.ID, byIncident)
	next := *n
	next.Data = bytes.Clone(n.Data)
	switch {
	case n.Revision == 1 && there:
		return refused("%s exists", what)
	case n.Revision == 1 && n.Ended == 0 && slices.ContainsFunc(old, func(o store.Incident) bool {
		return o.Workflow == n.Workflow && o.Rule == n.Rule && o.Ended == 0
	}):
		return refused("workflow %d has an incident of rule %s", n.Workflow, n.Rule)
	case n.Revision == 1:
		e.incidents = slices.Insert(slices.Clone(old), i, next)
	case !there || old[i].Revision != n.Revision-1 || old[i].Shard != n.Shard:
		return missed("%s is not at revision %d", what, n.Revision-1)
	default:
		is := old[i]
		is.State, is.Revision, is.Modified, is.Ended, is.Data = next.State, next.Revision, next.Modified, next.Ended, next.Data
		e.incidents = slices.Clone(old)
		e.incidents[i] = is
	}
	x.onUndo(func() { e.incidents = old })
	return nil
}

func (x *tx) insertNotice(n *store.Notice) error {
	what := "notice of incident " + n.Incident.String()
	if err := checkTexts(what, n.Channel, n.Namespace, n.State, n.Error); err != nil {
		return err
	}
	if err := checkSize(what, len(n.Data)); err != nil {
		return err
	}
	if err := x.fenced(n.Shard, what); err != nil {
		return err
	}
	e := &x.s.alerts
	old := e.notices
	i, there := slices.BinarySearchFunc(old, *n, compareNotices)
	if there {
		return refused("%s exists: number %d for channel %s", what, n.Seq, n.Channel)
	}
	next := *n
	next.Data = bytes.Clone(n.Data)
	e.notices = slices.Insert(slices.Clone(old), i, next)
	x.onUndo(func() { e.notices = old })
	return nil
}

func (e *alerts) change(ctx context.Context, change func() error) error {
	return e.s.write(ctx, Op{Kind: AlertsBefore}, AlertsAfter, e.s.noted(ctx, change))
}

// PutAlertChannel implements store.Alerts.
func (e *alerts) PutAlertChannel(ctx context.Context, c store.AlertChannel) (store.AlertChannel, error) {
	err := e.change(ctx, func() error {
		if err := checkTexts("channel", c.Namespace, c.Name, c.By); err != nil {
			return err
		}
		old, missing := e.channels.get(c.Namespace, c.Name)
		c.Created, c.Modified = e.s.clock(), e.s.clock()
		if missing == nil {
			c.Created = old.Created
		}
		switch {
		case c.Version != old.Version+1:
			return missed("channel %s/%s is at version %d", c.Namespace, c.Name, old.Version)
		case missing != nil && len(e.channels.rows) >= store.AlertChannelsMax:
			return refused("there are already %d channels, the limit", store.AlertChannelsMax)
		}
		c.Data = bytes.Clone(c.Data)
		e.channels.put(c)
		return nil
	})
	return c, err
}

// DropAlertChannel implements store.Alerts.
func (e *alerts) DropAlertChannel(ctx context.Context, namespace, name string) error {
	return e.change(ctx, func() error { return e.channels.drop(namespace, name) })
}

// AlertChannels implements store.Alerts.
func (e *alerts) AlertChannels(ctx context.Context) (all []store.AlertChannel, err error) {
	return all, e.s.read(ctx, Read, func() error {
		all = slices.Clone(e.channels.rows)
		return nil
	})
}

// some returns the incidents that match, at most limit, in the order of their ids.
func (e *alerts) some(ctx context.Context, limit int, match func(*store.Incident) bool) (found []store.Incident, err error) {
	return found, e.s.read(ctx, Read, func() error {
		for i := 0; i < len(e.incidents) && len(found) < limit; i++ {
			if match(&e.incidents[i]) {
				found = append(found, e.incidents[i])
			}
		}
		return nil
	})
}

// OpenIncidents implements store.Alerts.
func (e *alerts) OpenIncidents(ctx context.Context, shard dag.ShardID, after uuid.UUID, limit int) ([]store.Incident, error) {
	return e.some(ctx, limit, func(n *store.Incident) bool {
		return n.Ended == 0 && n.Shard == shard && bytes.Compare(n.ID[:], after[:]) > 0
	})
}

// Incident implements store.Alerts.
func (e *alerts) Incident(ctx context.Context, id uuid.UUID) (n store.Incident, err error) {
	found, err := e.some(ctx, 1, func(n *store.Incident) bool { return n.ID == id })
	if err != nil || len(found) == 0 {
		return n, cmp.Or(err, fmt.Errorf("incident %s: %w", id, store.ErrNotFound))
	}
	return found[0], nil
}

// Incidents implements store.Alerts.
func (e *alerts) Incidents(ctx context.Context, q store.IncidentQuery) ([]store.Incident, error) {
	found, err := e.some(ctx, int(^uint(0)>>1), func(n *store.Incident) bool {
		hidden := n.State == store.IncidentCounting || n.State == store.IncidentPassed
		return (q.Before == 0 || n.Created < q.Before || n.Created == q.Before && bytes.Compare(n.ID[:], q.BeforeID[:]) < 0) &&
			(q.Namespaces == nil || slices.Contains(q.Namespaces, n.Namespace)) && (q.Workflow == 0 || n.Workflow == q.Workflow) &&
			(q.Over || n.Ended == 0) && (q.Counting || !hidden) && (q.State == "" || n.State == q.State)
	})
	slices.SortFunc(found, func(a, b store.Incident) int {
		return cmp.Or(cmp.Compare(b.Created, a.Created), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return found[:min(len(found), q.Limit)], err
}

// Notices implements store.Alerts.
func (e *alerts) Notices(ctx context.Context, incident uuid.UUID) (found []store.Notice, err error) {
	return found, e.s.read(ctx, Read, func() error {
		for i := range e.notices {
			if e.notices[i].Incident == incident {
				found = append(found, e.notices[i])
			}
		}
		return nil
	})
}

// first reports whether a notice is pending and has no pending predecessor.
func (e *alerts) first(n *store.Notice) bool {
	return n.Ended == 0 && !slices.ContainsFunc(e.notices, func(o store.Notice) bool {
		return o.Incident == n.Incident && o.Channel == n.Channel && o.Seq < n.Seq && o.Ended == 0
	})
}

func (e *alerts) due(ctx context.Context, q store.NoticeQuery) (found []store.Notice, err error) {
	err = e.s.read(ctx, Read, func() error {
		for i := range e.notices {
			n := &e.notices[i]
			if e.first(n) && slices.Contains(q.Shards, n.Shard) && n.Due <= q.Now && !slices.Contains(q.Not, store.ChannelKey{Namespace: n.Namespace, Name: n.Channel}) {
				found = append(found, *n)
			}
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b store.Notice) int { return cmp.Compare(a.Due, b.Due) })
	return found[:min(len(found), q.Limit)], err
}

// DueNotices implements store.Alerts.
func (e *alerts) DueNotices(ctx context.Context, q store.NoticeQuery) ([]store.Notice, error) {
	return e.due(ctx, q)
}

// NextNotice implements store.Alerts.
func (e *alerts) NextNotice(ctx context.Context, shards []dag.ShardID) (dag.Micros, error) {
	found, err := e.due(ctx, store.NoticeQuery{Shards: shards, Now: 1<<63 - 1, Limit: 1})
	if err != nil || len(found) == 0 {
		return 0, cmp.Or(err, fmt.Errorf("notices: %w", store.ErrNotFound))
	}
	return found[0].Due, nil
}

// NoteNotice implements store.Alerts.
func (e *alerts) NoteNotice(ctx context.Context, n store.Notice) error {
	return e.s.write(ctx, Op{Kind: AlertsBefore}, AlertsAfter, func() error {
		if err := checkTexts("notice", n.State, n.Error); err != nil {
			return err
		}
		i, there := slices.BinarySearchFunc(e.notices, n, compareNotices)
		if !there || e.notices[i].Ended != 0 || e.notices[i].Tries != n.Tries-1 {
			return missed("notice %d of incident %s for channel %s is not pending after %d calls", n.Seq, n.Incident, n.Channel, n.Tries-1)
		}
		is := &e.notices[i]
		is.State, is.Tries, is.Due, is.Ended, is.Error = n.State, n.Tries, n.Due, n.Ended, n.Error
		return nil
	})
}

// AlertTroubles implements store.Alerts.
func (e *alerts) AlertTroubles(ctx context.Context, since dag.Micros) (all []store.Trouble, err error) {
	err = e.s.read(ctx, Read, func() error {
		for i := range e.notices {
			n := &e.notices[i]
			pending := n.Ended == 0 && n.Tries > 0
			if !pending && (n.Ended == 0 || n.State == store.NoticeSent || n.Ended < since) {
				continue
			}
			k := store.ChannelKey{Namespace: n.Namespace, Name: n.Channel}
			at := slices.IndexFunc(all, func(t store.Trouble) bool { return t.ChannelKey == k })
			if at < 0 {
				at, all = len(all), append(all, store.Trouble{ChannelKey: k})
			}
			if pending {
				all[at].Pending++
			} else {
				all[at].Lost++
			}
			all[at].Error = max(all[at].Error, n.Error)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b store.Trouble) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

// ExpireIncidents implements store.Alerts.
func (e *alerts) ExpireIncidents(ctx context.Context, x store.IncidentExpiry) (gone int, err error) {
	err = e.s.write(ctx, Op{Kind: AlertsBefore}, AlertsAfter, func() error {
		over := map[uuid.UUID]bool{}
		old := slices.Clone(e.incidents)
		slices.SortStableFunc(old, func(a, b store.Incident) int { return cmp.Compare(a.Ended, b.Ended) })
		before := x.Before
		if n := len(old) - x.Keep; n >= 0 {
			before = max(before, old[n].Ended)
		}
		for i := range old {
			n := &old[i]
			pending := slices.ContainsFunc(e.notices, func(o store.Notice) bool { return o.Incident == n.ID && o.Ended == 0 })
			if n.Ended > 0 && n.Ended < before && !pending && gone < x.Limit {
				over[n.ID] = true
				gone++
			}
		}
		e.incidents = slices.DeleteFunc(slices.Clone(e.incidents), func(n store.Incident) bool { return over[n.ID] })
		e.notices = slices.DeleteFunc(slices.Clone(e.notices), func(n store.Notice) bool { return over[n.Incident] })
		return nil
	})
	return gone, err
}
