package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// Bounds of a batch of starts.
const (
	batchBytesMax  = 16 << 20
	batchesMax     = 4    // concurrent batches; further batches wait
	batchChunk     = 2000 // starts in one call of the engine
	batchElsewhere = 32   // concurrent starts that are passed to other nodes
)

type startBatchIn struct {
	Idempotent
	Body api.BatchRequest
}

// startBatch starts many runs. It decides about each start separately. When it answers, every accepted run is
// durable.
func startBatch(ctx context.Context, s *Server, in *startBatchIn) (*jsonOut[api.BatchResult], error) {
	for i := range in.Body.Runs {
		r := &in.Body.Runs[i]
		if r.IdempotencyKey != "" {
			continue
		}
		if in.Key == "" {
			return nil, invalid("runs[%d] has no idempotency_key, so the batch could not be sent again safely. "+
				"Give each start a key, or the request the header Idempotency-Key", i)
		}
		if r.IdempotencyKey = in.Key + "/" + strconv.Itoa(i); len(r.IdempotencyKey) > keyMax {
			return nil, invalid("the header Idempotency-Key is too long for a batch: use at most %d bytes", keyMax-6)
		}
	}
	select {
	case s.batches <- struct{}{}:
		defer s.batches.leave()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %d other batches are being started", errkind.ErrBusy, batchesMax)
	}
	b := batch{s: s, starts: in.Body.Runs, names: map[string]found{}}
	b.result.Items = make([]api.StartVerdict, len(b.starts))
	for at := 0; at < len(b.starts); at += batchChunk {
		b.start(ctx, at, min(at+batchChunk, len(b.starts)))
	}
	for i := range b.result.Items {
		switch b.result.Items[i].Verdict {
		case api.VerdictAccepted:
			b.result.Accepted++
		case api.VerdictExisting:
			b.result.Existing++
		default:
			b.result.Refused++
		}
	}
	return &jsonOut[api.BatchResult]{Body: b.result}, nil
}

// keyMax bounds an idempotency key, in bytes.
const keyMax = 255

// batch is the processing of one request.
type batch struct {
	s      *Server
	starts []api.RunRequest
	names  map[string]found // workflows by the names that the starts give
	result api.BatchResult
}

// found is the result of a search for a workflow.
type found struct {
	workflow store.Workflow
	err      error
}

// start starts a part of the batch.
func (b *batch) start(ctx context.Context, from, to int) {
	subs, at := make([]engine.Submission, 0, to-from), make([]int, 0, to-from)
	for i := from; i < to; i++ {
		if sub, ok := b.prepare(ctx, i); ok {
			subs, at = append(subs, sub), append(at, i)
		}
	}
	accepted, errs := b.s.engine.SubmitEach(ctx, subs)
	var away []int
	for n, i := range at {
		var moved *errkind.Elsewhere
		if errors.As(errs[n], &moved) {
			away = append(away, i)
			continue
		}
		b.decide(i, accepted[n], sameKey(&accepted[n], &subs[n], errs[n]))
	}
	b.passOn(ctx, away)
}

// prepare checks one start and returns its submission. If no submission is needed, prepare writes the verdict
// and returns false. Every start of a batch passes through prepare before the engine sees it, so a check of
// the caller against the start's workflow belongs here.
func (b *batch) prepare(ctx context.Context, i int) (sub engine.Submission, ok bool) {
	w, err := b.workflow(ctx, b.starts[i].Workflow)
	if err != nil {
		b.decide(i, engine.Accepted{}, err)
		return sub, false
	}
	if err := mayStart(ctx, &b.starts[i]); err != nil {
		b.decide(i, engine.Accepted{}, err)
		return sub, false
	}
	if sub, err = b.s.submission(ctx, w, &b.starts[i], nil); err != nil {
		a, err := startedBefore(ctx, b.s.engine, &sub, err)
		b.decide(i, a, err)
		return sub, false
	}
	sub.View = false
	return sub, true
}

// passOn sends starts to the nodes that own their shards. An owner puts the starts that arrive together
// into one transaction.
func (b *batch) passOn(ctx context.Context, away []int) {
	var wg sync.WaitGroup
	room := make(chan struct{}, batchElsewhere)
	for _, i := range away {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			a, err := b.s.submit(ctx, &b.starts[i], nil)
			b.decide(i, a, err)
		})
	}
	wg.Wait()
}

// workflow finds a workflow, once for all starts that name it.
func (b *batch) workflow(ctx context.Context, name string) (*store.Workflow, error) {
	f, known := b.names[name]
	if !known {
		if f.err = mayName(ctx, access.RunStart, name); f.err == nil {
			f.workflow, _, f.err = b.s.startable(ctx, name)
		}
		b.names[name] = f
	}
	return &f.workflow, f.err
}

// decide writes the verdict on one start.
func (b *batch) decide(i int, a engine.Accepted, err error) {
	v := &b.result.Items[i]
	if err != nil {
		f := failed(err)
		p := f.Problem
		p.Instance = api.Prefix + "/runs:batch#" + strconv.Itoa(i)
		v.Verdict, v.Problem = api.VerdictRefused, &p
		return
	}
	run := a.Run.String()
	v.Run, v.Verdict = &run, api.VerdictAccepted
	if a.Existing {
		v.Verdict = api.VerdictExisting
	}
}
