package storetest

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// logged returns a check that gets the store as store.Logs. It is skipped if the engine does not store logs.
func logged(run func(b *bed, l store.Logs)) func(b *bed) {
	return func(b *bed) {
		l, ok := b.s.(store.Logs)
		if !ok {
			b.Skip("logs are files")
		}
		run(b, l)
	}
}

func logs() []check {
	return []check{
		{"a log grows at its end only", logged(logGrows)},
		{"a log keeps its last bytes", logged(logKeeps)},
		{"a log that is cut begins anew", logged(logCut)},
		{"a log of an attempt that is not there", logged(logUnknown)},
		{"logs go with their run", logged(logsDeleted)},
		{"a log written by several at once", logged(logAtOnce)},
		{"logs of a closed store", logged(logsClosed)},
	}
}

const logKeep = 100 << 10

// printing adds a run with two attempts of one task.
func (b *bed) printing() store.LogID {
	b.Helper()
	r := b.run(dag.RunRunning)
	b.put(func(x *store.Batch) {
		x.RunInserts = []dag.RunRow{r}
		x.AttemptInserts = []dag.AttemptRow{b.attempt(r.ID, 3, 1), b.attempt(r.ID, 3, 2)}
	})
	return store.LogID{Run: r.ID, Task: 3, Token: 1}
}

func (b *bed) print(l store.Logs, id store.LogID, at int64, text string) store.LogSpan {
	b.Helper()
	spans, err := l.AppendLogs(b.ctx, []store.LogPart{{LogID: id, Offset: at, Size: int32(len(text)), Data: []byte(text)}}, logKeep)
	b.ok(err)
	return spans[0]
}

// text reads a whole log from its first byte, block by block.
func (b *bed) text(l store.Logs, id store.LogID) (string, store.LogSpan) {
	b.Helper()
	span, err := l.LogSpan(b.ctx, id)
	if !b.found(err) {
		return "", span
	}
	var text bytes.Buffer
	for at := span.First; at < span.End; {
		p, err := l.LogBlock(b.ctx, id, at)
		b.ok(err)
		b.same(p.Offset, at, "the block's offset")
		b.same(len(p.Data), int(p.Size), "the block's size")
		text.Write(p.Data)
		at += int64(p.Size)
	}
	_, err = l.LogBlock(b.ctx, id, span.End)
	b.is(err, store.ErrNotFound)
	return text.String(), span
}

func logGrows(b *bed, l store.Logs) {
	id := b.printing()
	other := id
	other.Token = 2
	b.same(b.print(l, id, 0, "one\n"), store.LogSpan{End: 4, Known: true}, "after the first part")
	b.same(b.print(l, id, 4, "two\x00\xff\n"), store.LogSpan{End: 10, Known: true}, "after the second part")
	// These parts repeat stored bytes, overlap them, or begin after the end.
	for _, at := range []int64{0, 4, 9, 11, 1 << 40} {
		b.same(b.print(l, id, at, "late\n"), store.LogSpan{End: 10, Known: true}, "what does not follow")
	}
	b.same(b.print(l, other, 0, "another\n"), store.LogSpan{End: 8, Known: true}, "the log of another attempt")
	spans, err := l.AppendLogs(b.ctx, []store.LogPart{
		{LogID: id, Offset: 10, Size: 1, Data: []byte("a")}, {LogID: other, Offset: 99, Size: 1, Data: []byte("-")},
		{LogID: id, Offset: 11, Size: 1, Data: []byte("b")}, {LogID: other}}, logKeep)
	b.ok(err)
	b.same(spans, []store.LogSpan{{End: 11, Known: true}, {End: 8, Known: true}, {End: 12, Known: true}, {End: 8, Known: true}}, "spans")
	text, _ := b.text(l, id)
	b.same(text, "one\ntwo\x00\xff\nab", "the log")
	text, _ = b.text(l, other)
	b.same(text, "another\n", "the other log")
	p, err := l.LogBlock(b.ctx, id, 5)
	b.ok(err)
	b.same(p.Offset, int64(0), "a block holds what was joined")
}

func logKeeps(b *bed, l store.Logs) {
	id := b.printing()
	var all strings.Builder
	for all.Len() < 3*logKeep {
		part := strings.Repeat(string(rune('a'+all.Len()%26)), 4999) + "\n"
		b.print(l, id, int64(all.Len()), part)
		all.WriteString(part)
	}
	text, span := b.text(l, id)
	b.same(span.End, int64(all.Len()), "the end")
	if kept := span.End - span.First; kept < logKeep || kept > logKeep+store.LogBlockMax {
		b.Errorf("%d bytes are kept, of %d wanted", kept, logKeep)
	}
	b.same(text == all.String()[span.First:], true, "the kept bytes are those that were written")
	p, err := l.LogBlock(b.ctx, id, 0)
	b.ok(err)
	b.same(p.Offset, span.First, "the block after what has gone")
}

func logCut(b *bed, l store.Logs) {
	id := b.printing()
	b.print(l, id, 0, "begin\n")
	cut := func(at int64) store.LogSpan {
		spans, err := l.AppendLogs(b.ctx, []store.LogPart{{LogID: id, Offset: at, Size: 4, Data: []byte("end\n"), Cut: true}}, logKeep)
		b.ok(err)
		return spans[0]
	}
	b.same(cut(3), store.LogSpan{End: 6, Known: true}, "a cut in the middle")
	b.same(cut(6), store.LogSpan{End: 10, Known: true}, "a cut that is none")
	b.same(cut(5000), store.LogSpan{First: 5000, End: 5004, Known: true}, "a cut")
	text, _ := b.text(l, id)
	b.same(text, "end\n", "the log")
}

func logUnknown(b *bed, l store.Logs) {
	id := b.printing()
	for _, no := range []store.LogID{{Run: runID(99), Task: 3, Token: 1}, {Run: id.Run, Task: 4, Token: 1}, {Run: id.Run, Task: 3, Token: 3}} {
		b.same(b.print(l, no, 0, "x"), store.LogSpan{}, "a log of nobody")
		_, err := l.LogSpan(b.ctx, no)
		b.is(err, store.ErrNotFound)
	}
	_, err := l.LogSpan(b.ctx, id)
	b.is(err, store.ErrNotFound)
	_, err = l.LogBlock(b.ctx, id, 0)
	b.is(err, store.ErrNotFound)
	none, err := l.AppendLogs(b.ctx, nil, logKeep)
	b.ok(err)
	b.same(len(none), 0, "spans of no parts")
}

func logsDeleted(b *bed, l store.Logs) {
	one, two := b.printing(), b.printing()
	again := one
	again.Token = 2
	for _, id := range []store.LogID{one, again, two} {
		b.print(l, id, 0, "text")
	}
	b.ok(l.DeleteLogs(b.ctx, []dag.RunID{one.Run, runID(99)}))
	for id, wanted := range map[store.LogID]string{one: "", again: "", two: "text"} {
		text, _ := b.text(l, id)
		b.same(text, wanted, "a log")
	}
	b.ok(l.DeleteLogs(b.ctx, nil))
}

// logAtOnce makes several writers send the same bytes in different pieces. The stored log must consist of
// exactly those bytes.
func logAtOnce(b *bed, l store.Logs) {
	id := b.printing()
	text := strings.Repeat("0123456789abcdef", 400)
	var wg sync.WaitGroup
	for n := range 3 {
		wg.Go(func() {
			for at := 0; at < len(text); {
				part := text[at:min(len(text), at+211+97*n)]
				spans, err := l.AppendLogs(b.ctx, []store.LogPart{{LogID: id, Offset: int64(at), Size: int32(len(part)), Data: []byte(part)}}, logKeep)
				if err != nil {
					b.Error(err)
					return
				}
				at = int(spans[0].End)
			}
		})
	}
	wg.Wait()
	got, _ := b.text(l, id)
	b.same(got, text, "the log")
}

func logsClosed(b *bed, l store.Logs) {
	id := b.printing()
	verbs := func(ctx context.Context) []error {
		_, one := l.AppendLogs(ctx, []store.LogPart{{LogID: id, Size: 1, Data: []byte("x")}}, logKeep)
		_, two := l.LogSpan(ctx, id)
		_, three := l.LogBlock(ctx, id, 0)
		return []error{one, two, three, l.DeleteLogs(ctx, []dag.RunID{id.Run})}
	}
	over, cancel := context.WithCancel(b.ctx)
	cancel()
	for _, err := range verbs(over) {
		b.is(err, store.ErrUnavailable)
	}
	b.ok(b.s.Close())
	for _, err := range verbs(b.ctx) {
		b.is(err, store.ErrUnavailable)
	}
}
