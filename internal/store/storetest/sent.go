package storetest

import (
	"fmt"
	"sync"

	"skein.dev/skein/internal/store"
)

// sentEvents covers the log of sent events.
func sentEvents() []check {
	return []check{
		{"an event is added once, whatever comes with it", sentOnce},
		{"the log is read in order, in pages of a number and a size", sentPages},
		{"events that are added at once have numbers without gaps", sentTogether},
		{"old events go, and the numbers go on", sentExpires},
	}
}

func sentEvent(n int) store.SentEvent {
	return store.SentEvent{Namespace: "ns", Source: "shop·", ID: fmt.Sprint(n), Type: "order.created", Data: fmt.Appendf(nil, `{"n":%d}`, 10+n%90)}
}

// sentEach is the size of an event's data.
const sentEach = 8

func sentOnce(b *bed) {
	sentLog(b, 1, 0)
	seq, err := b.s.EventsUntil(b.ctx, 1<<60)
	b.ok(err)
	b.same(seq, int64(0), "the end of an empty log")
	added, err := b.s.AddEvents(b.ctx, []store.SentEvent{sentEvent(1), sentEvent(2)})
	b.ok(err)
	again := sentEvent(1)
	again.Data, again.Type = []byte("{}"), "other"
	more, err := b.s.AddEvents(b.ctx, []store.SentEvent{sentEvent(3), again, sentEvent(2), {Namespace: "other", Source: "shop·", ID: "1", Type: "t", Data: []byte("1")}})
	b.ok(err)
	for i, a := range append(added, more...) {
		b.same(a.Seq, []int64{1, 2, 3, 1, 2, 4}[i], "the number")
		b.same(a.Existing, i == 3 || i == 4, "whether it was there")
	}
	b.same(more[1].Received, added[0].Received, "when it came")
	all, err := b.s.EventsAfter(b.ctx, 0, 10, 1000)
	b.ok(err)
	b.same(len(all), 4, "events")
	want := sentEvent(1)
	want.Seq, want.Received = 1, added[0].Received
	b.same(all[0], want, "the first event")
}

// sentLog checks the first and the last id of the log.
func sentLog(b *bed, first, last int64) {
	f, l, err := b.s.EventLog(b.ctx)
	b.ok(err)
	b.same([]int64{f, l}, []int64{first, last}, "the log")
}

func sentPages(b *bed) {
	var events []store.SentEvent
	for n := range 60 {
		events = append(events, sentEvent(n))
	}
	events[30].Data = make([]byte, 5000)
	_, err := b.s.AddEvents(b.ctx, events)
	b.ok(err)
	for _, c := range []struct {
		after       int64
		limit, size int
		n           int
	}{{0, 10, 1000, 10}, {58, 10, 1000, 2}, {60, 10, 1000, 0}, {0, 100, 10*sentEach + 1, 10}, {20, 50, 3000, 10}, {30, 50, 3000, 1}, {30, 50, 1, 1}} {
		page, err := b.s.EventsAfter(b.ctx, c.after, c.limit, c.size)
		b.ok(err)
		b.same(len(page), c.n, fmt.Sprintf("events after %d, of %d bytes", c.after, c.size))
		for i := range page {
			b.same(page[i].Seq, c.after+int64(i)+1, "the number")
		}
	}
}

func sentTogether(b *bed) {
	const writers, each = 4, 25
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				if _, err := b.s.AddEvents(b.ctx, []store.SentEvent{sentEvent(w*1000 + n), sentEvent(1 << 20)}); err != nil {
					errs[w] = err
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		b.ok(err)
	}
	all, err := b.s.EventsAfter(b.ctx, 0, 1000, 1<<20)
	b.ok(err)
	b.same(len(all), writers*each+1, "events")
	for i := range all {
		b.same(all[i].Seq, int64(i+1), "the number")
		b.same(i > 0 && all[i].Received < all[i-1].Received, false, "whether it came before the event before it")
	}
}

func sentExpires(b *bed) {
	var events []store.SentEvent
	for n := range 10 {
		events = append(events, sentEvent(n))
	}
	added, err := b.s.AddEvents(b.ctx, events)
	b.ok(err)
	expire := func(x store.RecordExpiry) {
		x.RequestsKeep, x.CallsKeep, x.RecordsKeep = 1000, 1000, 1000
		_, err := b.s.(store.Retention).ExpireRecords(b.ctx, b.owner, x)
		b.ok(err)
	}
	until := func(seq int64, at int) {
		x := added[max(at, 0)].Received
		if at < 0 {
			x = 0
		}
		is, err := b.s.EventsUntil(b.ctx, x)
		b.ok(err)
		b.same(is, seq, "the events until an instant")
	}
	expire(store.RecordExpiry{EventsKeep: 6, Limit: 3})
	sentLog(b, 4, 10)
	expire(store.RecordExpiry{EventsKeep: 6, Limit: 3})
	sentLog(b, 5, 10)
	until(4, -1)
	until(10, 9)
	expire(store.RecordExpiry{EventsKeep: 100, Events: added[9].Received + 1, Limit: 100})
	sentLog(b, 11, 10)
	until(10, 9)
	more, err := b.s.AddEvents(b.ctx, events[:1])
	b.ok(err)
	b.same(more[0].Seq, int64(11), "the number goes on")
	b.same(more[0].Existing, false, "whether a deleted event is known")
}
