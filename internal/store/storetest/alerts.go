package storetest

import (
	"fmt"
	"slices"

	gouuid "github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// alerts covers channels, incidents and notices.
func alerts() []check {
	return []check{
		{"a channel is replaced by its next version only", channelReplaced},
		{"an incident changes revision by revision", incidentRevisions},
		{"a rule has one incident that is not over", oneIncident},
		{"incidents and notices are written with the batch or not at all", alertsWithBatch},
		{"incidents are listed", incidentsListed},
		{"a notice is due after its predecessors", noticesDue},
		{"a call of a notice is recorded once", noticeNoted},
		{"channels that take nothing are named", troubles},
		{"incidents that are over are deleted with their notices", incidentsExpire},
		{"the newest incident of a rule is found", lastIncident},
		{"a silence ends once", silenceEnds},
		{"alert rules are replaced by their next version only", alertRulesReplaced},
		{"a workflow is found by the rules of its current version", watchedFound},
		{"silences are bounded, and old ones go first", silencesBounded},
	}
}

func incidentFor(n byte, rule string) store.Incident {
	return store.Incident{ID: gouuid.UUID{n, 7}, Workflow: 5, Namespace: "shop", Rule: rule, State: store.IncidentOpen, Revision: 1,
		Created: dag.Micros(n) * 10, Modified: dag.Micros(n) * 10, Data: []byte{n, 0, 255}}
}

func noticeFor(n byte, seq int32, channel string) store.Notice {
	return store.Notice{Incident: gouuid.UUID{n, 7}, Seq: seq, Channel: channel, Namespace: "shop", Workflow: 5, State: store.NoticePending,
		Due: dag.Micros(n) * 10, Created: dag.Micros(n) * 10, Data: []byte{n, byte(seq)}}
}

func resolved(n store.Incident, revision int64, at dag.Micros) store.Incident {
	n.State, n.Revision, n.Modified, n.Ended, n.Data = store.IncidentResolved, revision, at, at, []byte("over")
	return n
}

func channelReplaced(b *bed) {
	c := store.AlertChannel{Namespace: "shop", Name: "ops", Version: 2, Data: []byte(`{"log":{}}`), By: "ann·"}
	_, err := b.s.PutAlertChannel(b.ctx, c)
	b.is(err, store.ErrFenced)
	c.Version = 1
	first, err := b.s.PutAlertChannel(b.ctx, c)
	b.ok(err)
	c.Created, c.Modified = first.Created, first.Modified
	b.same(first, c, "the channel")
	_, err = b.s.PutAlertChannel(b.ctx, c)
	b.is(err, store.ErrFenced)
	c.Version, c.Data = 2, []byte("{}")
	second, err := b.s.PutAlertChannel(b.ctx, c)
	b.ok(err)
	b.same(second.Created, first.Created, "made")
	other := c
	other.Namespace, other.Version = "a", 1
	other, err = b.s.PutAlertChannel(b.ctx, other)
	b.ok(err)
	all, err := b.s.AlertChannels(b.ctx)
	b.ok(err)
	b.same(all, []store.AlertChannel{other, second}, "channels")
	b.ok(b.s.DropAlertChannel(b.ctx, "shop", "ops"))
	b.is(b.s.DropAlertChannel(b.ctx, "shop", "ops"), store.ErrNotFound)
}

func incidentRevisions(b *bed) {
	n := incidentFor(1, "failed")
	_, err := b.s.Incident(b.ctx, n.ID)
	b.is(err, store.ErrNotFound)
	b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, n) })
	is, err := b.s.Incident(b.ctx, n.ID)
	b.ok(err)
	b.same(is, n, "a new incident")
	next := n
	next.Revision = 3
	x := b.batch()
	x.Incidents = append(x.Incidents, next)
	b.fails(x, store.ErrFenced)
	next.Revision, next.State, next.Modified, next.Data = 2, store.IncidentAcknowledged, 99, []byte("x")
	over := resolved(next, 3, 100)
	b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, next, over) })
	is, err = b.s.Incident(b.ctx, n.ID)
	b.ok(err)
	b.same(is, over, "changed twice in one batch")
	x = b.batch()
	x.Incidents = append(x.Incidents, next)
	b.fails(x, store.ErrFenced)
	x = b.batch()
	x.Incidents = append(x.Incidents, n)
	b.fails(x, store.ErrRefused, store.ErrFenced)
}

func oneIncident(b *bed) {
	first := incidentFor(1, "failed")
	b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, first) })
	x := b.batch()
	x.Incidents = append(x.Incidents, incidentFor(2, "failed"))
	b.fails(x, store.ErrRefused)
	b.put(func(x *store.Batch) {
		x.Incidents = append(x.Incidents, resolved(first, 2, 50), incidentFor(2, "failed"), incidentFor(3, "missed"))
	})
	open, err := b.s.OpenIncidents(b.ctx, 0, gouuid.UUID{}, 10)
	b.ok(err)
	b.same(open, []store.Incident{incidentFor(2, "failed"), incidentFor(3, "missed")}, "open incidents")
	open, err = b.s.OpenIncidents(b.ctx, 0, gouuid.UUID{2, 7}, 1)
	b.ok(err)
	b.same(open, []store.Incident{incidentFor(3, "missed")}, "after the first")
}

func alertsWithBatch(b *bed) {
	b.put(func(x *store.Batch) {
		x.Incidents = append(x.Incidents, incidentFor(1, "failed"))
		x.Notices = append(x.Notices, noticeFor(1, 1, "ops"), noticeFor(1, 1, "mail"))
	})
	got, err := b.s.Notices(b.ctx, gouuid.UUID{1, 7})
	b.ok(err)
	b.same(got, []store.Notice{noticeFor(1, 1, "mail"), noticeFor(1, 1, "ops")}, "notices")
	x := b.batch() // the batch has a notice twice, so nothing of it is written
	x.Incidents = append(x.Incidents, incidentFor(2, "missed"))
	x.Notices = append(x.Notices, noticeFor(1, 1, "ops"))
	b.fails(x, store.ErrRefused)
	_, err = b.s.Incident(b.ctx, gouuid.UUID{2, 7})
	b.is(err, store.ErrNotFound)
	guest := &store.Batch{}
	guest.Incidents = append(guest.Incidents, incidentFor(2, "missed"))
	_, err = b.send(guest)
	b.is(err, store.ErrFenced)
	stale := b.batch()
	stale.Fences[0].Epoch--
	stale.Incidents = append(stale.Incidents, incidentFor(2, "missed"))
	_, err = b.send(stale)
	b.is(err, store.ErrFenced)
	text := b.batch()
	text.Incidents = append(text.Incidents, incidentFor(2, "mis\x00sed"))
	b.fails(text, store.ErrRefused)
}

func incidentsListed(b *bed) {
	one, two, three := incidentFor(1, "a"), incidentFor(2, "b"), incidentFor(3, "c")
	two.Namespace, two.Workflow = "web", 6
	three.State = store.IncidentCounting
	over := resolved(incidentFor(4, "d"), 1, 60)
	over.Created = one.Created
	b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, one, two, three, over) })
	for what, want := range map[string]struct {
		q   store.IncidentQuery
		all []store.Incident
	}{
		"open":              {store.IncidentQuery{Limit: 9}, []store.Incident{two, one}},
		"one":               {store.IncidentQuery{Limit: 1}, []store.Incident{two}},
		"next":              {store.IncidentQuery{Limit: 9, Before: two.Created, BeforeID: two.ID}, []store.Incident{one}},
		"over":              {store.IncidentQuery{Limit: 9, Over: true}, []store.Incident{two, over, one}},
		"of the same time":  {store.IncidentQuery{Limit: 9, Over: true, Before: over.Created, BeforeID: over.ID}, []store.Incident{one}},
		"counting":          {store.IncidentQuery{Limit: 9, Counting: true}, []store.Incident{three, two, one}},
		"of a namespace":    {store.IncidentQuery{Limit: 9, Namespaces: []string{"shop", "sho"}}, []store.Incident{one}},
		"of no namespace":   {store.IncidentQuery{Limit: 9, Namespaces: []string{}}, nil},
		"of a workflow":     {store.IncidentQuery{Limit: 9, Workflow: 6}, []store.Incident{two}},
		"open in state":     {store.IncidentQuery{Limit: 9, State: store.IncidentOpen}, []store.Incident{two, one}},
		"over in state":     {store.IncidentQuery{Limit: 9, Over: true, State: store.IncidentResolved}, []store.Incident{over}},
		"in no such state":  {store.IncidentQuery{Limit: 9, Over: true, State: store.IncidentAcknowledged}, nil},
		"of other workflow": {store.IncidentQuery{Limit: 9, Workflow: 7, Over: true, Counting: true}, nil},
	} {
		all, err := b.s.Incidents(b.ctx, want.q)
		b.ok(err)
		if len(all) != len(want.all) || len(all) > 0 && !slices.EqualFunc(all, want.all, func(a, b store.Incident) bool { return a.ID == b.ID }) {
			b.Errorf("%s: %+v, want %+v", what, all, want.all)
		}
	}
}

func noticesDue(b *bed) {
	_, err := b.s.NextNotice(b.ctx, b.shards())
	b.is(err, store.ErrNotFound)
	later := noticeFor(1, 2, "ops")
	later.Due = 5
	other := noticeFor(1, 2, "mail")
	b.put(func(x *store.Batch) {
		x.Notices = append(x.Notices, noticeFor(1, 1, "ops"), later, other, noticeFor(2, 1, "ops"))
	})
	due := func(now dag.Micros, limit int, not ...store.ChannelKey) (all []string) {
		b.Helper()
		found, err := b.s.DueNotices(b.ctx, store.NoticeQuery{Shards: b.shards(), Now: now, Not: not, Limit: limit})
		b.ok(err)
		for _, n := range found {
			all = append(all, fmt.Sprintf("%d.%d %s", n.Incident[0], n.Seq, n.Channel))
		}
		return all
	}
	b.same(due(9, 9), []string(nil), "before all")
	b.same(due(10, 9), []string{"1.1 ops", "1.2 mail"}, "the first")
	b.same(due(20, 9), []string{"1.1 ops", "1.2 mail", "2.1 ops"}, "all")
	b.same(due(20, 1), []string{"1.1 ops"}, "one")
	b.same(due(20, 9, store.ChannelKey{Namespace: "shop", Name: "ops"}), []string{"1.2 mail"}, "but those of a channel")
	b.same(due(20, 9, store.ChannelKey{Namespace: "web", Name: "ops"}), []string{"1.1 ops", "1.2 mail", "2.1 ops"}, "but those of another namespace")
	at, err := b.s.NextNotice(b.ctx, b.shards())
	b.ok(err)
	b.same(at, dag.Micros(10), "the next")
	sent := noticeFor(1, 1, "ops")
	sent.State, sent.Tries, sent.Ended = store.NoticeSent, 1, 30
	b.ok(b.s.NoteNotice(b.ctx, sent))
	b.same(due(20, 9), []string{"1.2 ops", "1.2 mail", "2.1 ops"}, "after the first is sent")
	none, err := b.s.DueNotices(b.ctx, store.NoticeQuery{Now: 20, Limit: 9})
	b.ok(err)
	b.same(len(none), 0, "of no shard")
}

func noticeNoted(b *bed) {
	n := noticeFor(1, 1, "ops")
	b.put(func(x *store.Batch) { x.Notices = append(x.Notices, n) })
	n.Tries, n.Due, n.Error = 2, 70, "no answer"
	b.is(b.s.NoteNotice(b.ctx, n), store.ErrFenced)
	n.Tries = 1
	b.ok(b.s.NoteNotice(b.ctx, n))
	b.is(b.s.NoteNotice(b.ctx, n), store.ErrFenced)
	got, err := b.s.Notices(b.ctx, n.Incident)
	b.ok(err)
	b.same(got, []store.Notice{n}, "after a call")
	n.Tries, n.State, n.Ended, n.Error = 2, store.NoticeFailed, 80, "gone"
	b.ok(b.s.NoteNotice(b.ctx, n))
	n.Tries, n.State = 3, store.NoticeSent
	b.is(b.s.NoteNotice(b.ctx, n), store.ErrFenced)
	n.Channel = "mail"
	b.is(b.s.NoteNotice(b.ctx, n), store.ErrFenced)
}

func troubles(b *bed) {
	b.put(func(x *store.Batch) {
		for i := range byte(5) {
			x.Notices = append(x.Notices, noticeFor(i+1, 1, "ops"), noticeFor(i+1, 1, "mail"))
		}
	})
	note := func(n byte, channel, state string, at dag.Micros, why string) {
		one := noticeFor(n, 1, channel)
		one.State, one.Tries, one.Ended, one.Error = state, 1, at, why
		b.ok(b.s.NoteNotice(b.ctx, one))
	}
	note(1, "ops", store.NoticePending, 0, "no answer")
	note(2, "ops", store.NoticeFailed, 40, "no answer")
	note(3, "ops", store.NoticeExpired, 50, "no answer")
	note(1, "mail", store.NoticeSent, 50, "")
	all, err := b.s.AlertTroubles(b.ctx, 45)
	b.ok(err)
	b.same(all, []store.Trouble{{ChannelKey: store.ChannelKey{Namespace: "shop", Name: "ops"}, Pending: 1, Lost: 1, Error: "no answer"}}, "troubles")
}

func incidentsExpire(b *bed) {
	b.put(func(x *store.Batch) {
		for i := range byte(4) {
			n := resolved(incidentFor(i+1, fmt.Sprint(i)), 1, dag.Micros(i+1)*10)
			x.Incidents = append(x.Incidents, n)
			x.Notices = append(x.Notices, noticeFor(i+1, 1, "ops"))
		}
		x.Incidents = append(x.Incidents, incidentFor(9, "open"))
	})
	for _, n := range []byte{1, 2, 4} {
		sent := noticeFor(n, 1, "ops")
		sent.State, sent.Tries, sent.Ended = store.NoticeSent, 1, 30
		b.ok(b.s.NoteNotice(b.ctx, sent))
	}
	for _, want := range []int{1, 1, 0} { // incident 3 has a pending notice, and incident 4 is too young
		gone, err := b.s.ExpireIncidents(b.ctx, store.IncidentExpiry{Before: 35, Keep: 9, Limit: 1})
		b.ok(err)
		b.same(gone, want, "deleted")
	}
	b.put(func(x *store.Batch) {
		for i := byte(5); i < 8; i++ {
			x.Incidents = append(x.Incidents, resolved(incidentFor(i, fmt.Sprint(i)), 1, dag.Micros(i)*10))
			x.Notices = append(x.Notices, noticeFor(i, 1, "mail"))
		}
	})
	for i := byte(5); i < 8; i++ {
		sent := noticeFor(i, 1, "mail")
		sent.State, sent.Tries, sent.Ended = store.NoticeSent, 1, 30
		b.ok(b.s.NoteNotice(b.ctx, sent))
	}
	// Incidents 3 to 7 are left. If the newest two are kept, 4 and 5 are deleted.
	for _, x := range []struct{ keep, gone int }{{5, 0}, {2, 2}, {2, 0}} {
		gone, err := b.s.ExpireIncidents(b.ctx, store.IncidentExpiry{Before: 35, Keep: x.keep, Limit: 9})
		b.ok(err)
		b.same(gone, x.gone, fmt.Sprintf("deleted but the newest %d", x.keep))
	}
	for n, want := range map[byte]int{1: 0, 2: 0, 3: 1, 4: 0, 5: 0, 6: 1, 7: 1} {
		rows, err := b.s.Notices(b.ctx, gouuid.UUID{n, 7})
		b.ok(err)
		b.same(len(rows), want, fmt.Sprintf("notices of incident %d", n))
		_, err = b.s.Incident(b.ctx, gouuid.UUID{n, 7})
		if (err == nil) != (want == 1) {
			b.Errorf("incident %d: %v", n, err)
		}
	}
}
