package segments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/logs"
)

// Run writes segments until ctx ends. Flush writes the rest.
func (s *Store) Run(ctx context.Context) {
	var looking sync.WaitGroup
	looking.Go(func() { (&left{s: s, pause: leftPause}).run(ctx) })
	defer looking.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.wake: // idle nodes are not woken every second
		}
		for ctx.Err() == nil && s.waiting() {
			_ = s.seal(ctx, false) // seal logs the error, and the failed segments stay due
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}

func (s *Store) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tails) > 0
}

// Flush writes segments of all bytes that have none.
func (s *Store) Flush(ctx context.Context) error { return s.seal(ctx, true) }

// seal writes the segments that are due, or all of them. It stops after a few errors, so that an outage of
// the store is logged soon, and its end is noticed soon.
func (s *Store) seal(ctx context.Context, all bool) error {
	s.round.Lock()
	defer s.round.Unlock()
	list := s.choose(all)
	next := make(chan *tail)
	var wg sync.WaitGroup
	var mu sync.Mutex // protects errs
	var errs []error
	for range min(atOnce, len(list)) {
		wg.Go(func() {
			for t := range next {
				if err := s.write(ctx, t); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	failed := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(errs) >= atOnce
	}
	for _, t := range list {
		if failed() {
			break
		}
		next <- t
	}
	close(next)
	wg.Wait()
	err := errors.Join(errs...)
	if failing := err != nil; failing != s.failing && ctx.Err() == nil {
		if s.failing = failing; failing {
			s.log.Warn("logs cannot be written to the object store; they are written later", "code", "segments_delayed", "store", s.blobs.Name(), "err", errs[0])
		} else {
			s.log.Info("logs can be written to the object store again", "code", "segments_resumed", "store", s.blobs.Name())
		}
	}
	return err
}

// choose returns the logs with a segment to write. It forgets the logs that no longer grow.
func (s *Store) choose(all bool) (list []*tail) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.tails {
		switch {
		case t.due(now), t.unlisted(), t.end > t.sealed && all, len(t.data) > 0 && s.held > heldMax:
			list = append(list, t)
		case t.end <= t.sealed && (t.over || now.Sub(t.since) >= restMax):
			s.drop(t)
			delete(s.tails, id)
		}
	}
	return list
}

// write writes segments up to the present end of a log. The caller ensures that only one goroutine writes the
// segments of a log.
func (s *Store) write(ctx context.Context, t *tail) error {
	prefix, err := folder(&t.ref)
	if err != nil {
		s.sealedTo(t, t.end) // a log with such a name has no folder, so nothing of it is written
		return nil
	}
	for {
		s.mu.Lock()
		from, end, unlisted := t.sealed, t.end, t.unlisted()
		s.mu.Unlock()
		if from < 0 {
			if from, err = s.last(ctx, prefix); err != nil {
				return err
			}
			s.sealedTo(t, from)
		}
		if from >= end && unlisted {
			return s.putIndex(ctx, t, prefix)
		}
		if from >= end {
			return nil
		}
		content, at, n, err := s.content(ctx, t, from, min(end-from, sizeMax))
		if err != nil {
			return err
		}
		if n > 0 {
			err = s.blobs.Put(ctx, prefix+fmt.Sprintf("%0*d", digits, at), content, n, blob.PutOptions{IfAbsent: true})
		}
		_ = content.Close()
		switch {
		case errors.Is(err, blob.ErrExists): // another node or an earlier request has written the segment
			last, err := s.last(ctx, prefix)
			if err != nil {
				return err
			}
			s.sealedTo(t, max(last, at+1)) // the position always rises
		case err != nil:
			return err
		default:
			s.sealedTo(t, at+n)
		}
	}
}

// putIndex stores the index of an ended log. If the writer of the log made no index, a reader makes it.
func (s *Store) putIndex(ctx context.Context, t *tail, prefix string) error {
	file, err := s.files.Open(ctx, t.ref)
	if err == nil {
		var records []byte
		records, err = file.(logs.Indexed).Index()
		_ = file.Close() // the file was only read
		if err == nil {
			if err := s.blobs.Put(ctx, prefix+indexName, bytes.NewReader(records), int64(len(records)), blob.PutOptions{}); err != nil {
				return err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.listed = true
	return nil
}

// sealedTo records that the bytes before to are in segments, and drops them from memory.
func (s *Store) sealedTo(t *tail, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.sealed, t.since = to, time.Now()
	t.end = max(t.end, to)
	if have := t.at + int64(len(t.data)); to >= have {
		s.drop(t)
	} else if to > t.at && len(t.data) > 0 {
		s.held -= to - t.at
		t.data, t.at = bytes.Clone(t.data[to-t.at:]), to
	}
}

// last returns the end of a log's segments.
func (s *Store) last(ctx context.Context, prefix string) (end int64, err error) {
	err = blob.Walk(ctx, s.blobs, prefix, func(page []blob.Info) error {
		for i := range page {
			if at, ok := offsetOf(page[i].Key); ok {
				end = max(end, at+page[i].Size)
			}
		}
		return nil
	})
	return end, err
}

// offsetOf returns the offset in a key.
func offsetOf(key string) (int64, bool) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	if len(name) != digits {
		return 0, false
	}
	var at int64
	for _, c := range name {
		if c < '0' || c > '9' {
			return 0, false
		}
		at = at*10 + int64(c-'0')
	}
	return at, at >= 0
}

// content is a part of a log.
type content interface {
	io.ReaderAt
	io.Closer
}

type bytesOf struct{ *bytes.Reader }

func (bytesOf) Close() error { return nil }

type partOf struct {
	*io.SectionReader
	io.Closer
}

// content returns at most n bytes of a log from an offset on, from the log's file, from memory, or from the
// live end. If no copy has the first of these bytes, the returned part begins later.
func (s *Store) content(ctx context.Context, t *tail, from, n int64) (content, int64, int64, error) {
	if file, err := s.files.Open(ctx, t.ref); err == nil {
		size, err := file.Size()
		if err == nil && size >= from+n {
			return partOf{io.NewSectionReader(file, from, n), file}, from, n, nil
		}
		_ = file.Close()
	}
	s.mu.Lock()
	have := t.at + int64(len(t.data))
	if from >= t.at && from < have {
		n = min(n, have-from)
		data := bytes.Clone(t.data[from-t.at : from-t.at+n])
		s.mu.Unlock()
		return bytesOf{bytes.NewReader(data)}, from, n, nil
	}
	at, known := t.at, len(t.data) > 0
	s.mu.Unlock()
	live, err := s.live.Open(ctx, t.ref)
	if err == nil {
		defer live.Close()
		if first := live.First(from); first < from+n && (!known || first < at) {
			data := make([]byte, from+n-first)
			m, err := live.ReadAt(data, first)
			if m > 0 {
				return bytesOf{bytes.NewReader(data[:m])}, first, int64(m), nil
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
				return nil, 0, 0, err
			}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, 0, err
	}
	if known && at > from && at < from+n {
		return s.content(ctx, t, at, from+n-at)
	}
	return bytesOf{bytes.NewReader(nil)}, from + n, 0, nil // no copy has these bytes
}
