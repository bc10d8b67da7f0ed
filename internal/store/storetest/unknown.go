package storetest

import (
	"errors"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

func isKind(err error, kind error) bool { return errors.Is(err, kind) }

// unknowns covers commits whose answer is lost.
func unknowns() []check {
	return []check{
		{"written: seq tells, and nothing is missing", func(b *bed) { unknownCommit(b, Written) }},
		{"lost: seq tells, and nothing is there", func(b *bed) { unknownCommit(b, Lost) }},
		{"tried again blindly: fenced or applied, never twice", blindRetry},
		{"a guest's: the id makes the paths meet", unknownGuest},
		{"surely not written", surelyNot},
	}
}

// next gives the next commit a fault.
func (b *bed) next(fault Fault) {
	inner := b.s
	if f, ok := inner.(*Faulty); ok {
		inner = f.Store
	}
	b.s = &Faulty{Store: inner, Next: func(*store.Batch) Fault {
		once := fault
		fault = NoFault
		return once
	}}
}

func unknownCommit(b *bed, fault Fault) {
	w := b.world()
	held, before := slices.Clone(b.fences), b.contents()
	x := b.full(&w)
	b.next(fault)
	b.is(b.commit(x), store.ErrUnknown)
	for i, a := range b.take() {
		happened := a.Seq == held[i].Seq+1
		if happened != (fault == Written) || !happened && a.Seq != held[i].Seq {
			b.Fatalf("seq went from %d to %d", held[i].Seq, a.Seq)
		}
	}
	if fault == Lost {
		b.same(b.contents(), before, "after a lost commit")
		x.Fences = slices.Clone(b.fences)
		b.ok(b.commit(x)) // the kept events are applied again
	}
	c := b.contents()
	b.same(len(c.Runs), 2, "runs")
	b.same(c.Runs[0].Run.Message, "changed", "the updated run")
	b.same(len(c.Runs[0].Events), 2, "events")
	x.Fences = held
	b.fails(x, store.ErrFenced)
}

func blindRetry(b *bed) {
	for _, fault := range []Fault{Written, Lost} {
		x := b.batch()
		r := b.run(dag.RunRunning)
		x.RunInserts = []dag.RunRow{r}
		x.Messages = []store.Message{{Payload: []byte(r.ID.String())}}
		b.next(fault)
		b.is(b.commit(x), store.ErrUnknown)
		switch err := b.commit(x); {
		case fault == Written:
			b.is(err, store.ErrFenced)
		default:
			b.ok(err)
		}
		waiting, err := b.s.Messages(b.ctx, 0, 10)
		b.ok(err)
		b.same(string(waiting[len(waiting)-1].Payload), r.ID.String(), "the message")
		b.take()
	}
	waiting, err := b.s.Messages(b.ctx, 0, 10)
	b.ok(err)
	b.same(len(waiting), 2, "messages")
}

func unknownGuest(b *bed) {
	for _, fault := range []Fault{Written, Lost} {
		r := b.run(dag.RunSubmitted)
		x := &store.Batch{}
		x.RunInserts = []dag.RunRow{r}
		b.next(fault)
		b.is(b.commit(x), store.ErrUnknown)
		if err := b.commit(x); fault == Written {
			b.is(err, store.ErrRefused)
		} else {
			b.ok(err)
		}
		got, err := b.s.Run(b.ctx, r.ID)
		b.ok(err)
		b.same(got, r, "the run")
	}
}

func surelyNot(b *bed) {
	w := b.world()
	for fault, kind := range map[Fault]error{Unavailable: store.ErrUnavailable, Refused: store.ErrRefused} {
		x := b.full(&w)
		b.next(fault)
		before := b.contents()
		b.is(b.commit(x), kind)
		b.same(b.contents(), before, "contents")
	}
	b.ok(b.commit(b.full(&w)))
}
