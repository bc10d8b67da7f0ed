package storetest

import (
	gouuid "github.com/google/uuid"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func lastIncident(b *bed) {
	_, err := b.s.LastIncident(b.ctx, 5, "r")
	b.is(err, store.ErrNotFound)
	for n := range byte(3) {
		row := incidentFor(n+1, "r")
		b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, row, resolved(row, 2, 100)) })
	}
	other := incidentFor(9, "other")
	b.put(func(x *store.Batch) { x.Incidents = append(x.Incidents, other) })
	row, err := b.s.LastIncident(b.ctx, 5, "r")
	b.ok(err)
	b.same(row.ID, incidentFor(3, "r").ID, "the newest")
	_, err = b.s.LastIncident(b.ctx, 6, "r")
	b.is(err, store.ErrNotFound)
}

func silence(b *bed, n int, until dag.Micros) (store.Silence, error) {
	return b.s.PutSilence(b.ctx, store.Silence{ID: gouuid.UUID{byte(n >> 8), byte(n), 5}, Namespace: "shop", Workflow: "orders", Rule: "r", Until: until, By: "ann·", Reason: "because"})
}

func silenceEnds(b *bed) {
	now, err := b.s.Clock(b.ctx)
	b.ok(err)
	hour := dag.Micros(3600_000_000)
	first, err := silence(b, 1, now+hour)
	b.ok(err)
	second, err := silence(b, 2, now+2*hour)
	b.ok(err)
	all, err := b.s.Silences(b.ctx)
	b.ok(err)
	b.same(all, []store.Silence{second, first}, "the silences")
	over, err := b.s.EndSilence(b.ctx, first.ID)
	b.ok(err)
	if over.Until >= first.Until || over.ID != first.ID || over.Reason != first.Reason {
		b.Errorf("it has become %+v", over)
	}
	_, err = b.s.EndSilence(b.ctx, first.ID)
	b.is(err, store.ErrNotFound)
	_, err = b.s.EndSilence(b.ctx, gouuid.UUID{9})
	b.is(err, store.ErrNotFound)
}

func silencesBounded(b *bed) {
	now, err := b.s.Clock(b.ctx)
	b.ok(err)
	hour := dag.Micros(3600_000_000)
	_, err = silence(b, 1, now-200*hour)
	b.ok(err)
	for n := 2; n < store.SilencesMax; n++ {
		until := now + hour
		if n < 10 {
			until = now - hour
		}
		_, err := silence(b, n, until)
		b.ok(err)
	}
	all, err := b.s.Silences(b.ctx)
	b.ok(err)
	b.same(len(all), store.SilencesMax-2, "those that were over for long are gone")
	for n := store.SilencesMax; n < store.SilencesMax+10; n++ {
		_, err := silence(b, n, now+hour)
		b.ok(err)
	}
	_, err = silence(b, 5000, now+hour)
	b.is(err, store.ErrRefused)
	all, err = b.s.Silences(b.ctx)
	b.ok(err)
	b.same(len(all), store.SilencesMax, "as many as there may be")
}
