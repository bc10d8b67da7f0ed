package logs

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"skein.dev/skein/internal/logindex"
	"skein.dev/skein/internal/store"
)

const (
	// every is the interval between two reads of the log files. If a machine is lost, the output of about one
	// interval is lost.
	every = time.Second
	// soon is the time for which the end of a log waits, so that the ends of several logs are sent together.
	soon = 100 * time.Millisecond
	// chunkMax bounds the bytes of one read of a file. batchMax bounds the bytes of one request. roundMax
	// bounds the bytes of one round, in which every file is read once.
	chunkMax = 256 << 10
	batchMax = 1 << 20
	roundMax = 16 << 20
	// endedMax bounds the logs of ended attempts that are not sent yet. They wait while the store does not
	// answer.
	endedMax = 20_000
	// sendMax bounds one call of the store.
	sendMax = 20 * time.Second
)

// Sink is the part of a Store to which a Shipper sends. If it has a method Ended(Ref), the Shipper calls this
// method when it has sent the log of an ended attempt. The method must not block.
type Sink interface {
	Append(ctx context.Context, chunks []Chunk) ([]int64, error)
	Keep() int64
}

// Shipper sends the new bytes of this machine's log files to a store.
type Shipper struct {
	to    Sink
	local Folder
	log   *slog.Logger
	wake  chan struct{} // something has begun
	hurry chan struct{} // an attempt has ended, and people may wait for the rest of its log

	round sync.Mutex // held by the goroutine that sends; protects failing
	// failing reports whether the last round failed.
	failing bool

	mu      sync.Mutex // protects following fields
	live    map[store.LogID]*tail
	ended   int
	dropped int64 // logs that were given up because too many wait
	// behind counts the bytes that the store does not have yet, by the last known sizes of the files. gaveUp
	// counts the bytes that the shipper will not send any more.
	behind, gaveUp int64
}

// tail is a file that is being sent.
type tail struct {
	ref  Ref
	sent int64 // bytes that the store has
	size int64 // the last known size of the file
	over bool  // the attempt has ended: the file does not grow any more
}

// NewShipper returns a Shipper for the logs under the data folder data.
func NewShipper(to Sink, data string, log *slog.Logger) *Shipper {
	return &Shipper{to: to, local: Folder{data}, log: log, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), live: map[store.LogID]*tail{}}
}

// Begin records that an attempt writes a log on this machine. It may be called again for an attempt that
// continues after a restart, because the store has the end of the log.
func (s *Shipper) Begin(ref Ref) {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.live[ref.ID()] == nil {
		s.live[ref.ID()] = &tail{ref: ref}
	}
	s.mu.Unlock()
	nudge(s.wake)
}

// End records that an attempt has ended, and the length of its log.
func (s *Shipper) End(ref Ref, size int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[ref.ID()]
	switch {
	case t == nil || t.over:
	case size == 0:
		delete(s.live, ref.ID())
	case s.ended >= endedMax:
		s.measured(t, t.sent, size)
		s.giveUp(t)
		delete(s.live, ref.ID())
		s.dropped++
	default:
		s.measured(t, t.sent, size)
		t.over = true
		s.ended++
		nudge(s.hurry)
	}
}

// Behind returns the number of bytes that the store does not have yet, and the number of bytes that the
// shipper will not send any more. The sizes are those of the last round.
func (s *Shipper) Behind() (lag, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind, s.gaveUp
}

// measured records the sent part of a log and the size of its file. The caller holds the lock.
func (s *Shipper) measured(t *tail, sent, size int64) {
	s.behind -= max(0, t.size-t.sent)
	t.sent, t.size = sent, size
	s.behind += max(0, t.size-t.sent)
}

// giveUp counts the bytes that the store does not have as dropped. The caller holds the lock.
func (s *Shipper) giveUp(t *tail) {
	s.gaveUp += max(0, t.size-t.sent)
	s.measured(t, t.size, t.size)
}

// Has reports whether the store may lack a part of a log.
func (s *Shipper) Has(ref Ref) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[ref.ID()] != nil
}

func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends. Flush sends the rest.
func (s *Shipper) Run(ctx context.Context) {
	if s == nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-s.wake: // idle nodes are not woken every second
		}
		for ctx.Err() == nil && !s.idle() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				_ = s.Flush(ctx) // Flush logs the error, and the bytes are sent again
			case <-s.hurry:
				select {
				case <-ctx.Done():
				case <-time.After(soon):
					if s.reaches() {
						_ = s.flush(ctx, true)
					}
				}
			}
		}
	}
}

// reaches reports whether the store accepted the last bytes.
func (s *Shipper) reaches() bool {
	s.round.Lock()
	defer s.round.Unlock()
	return !s.failing
}

func (s *Shipper) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.live) == 0
}

// Flush sends the present content of all logs.
func (s *Shipper) Flush(ctx context.Context) error {
	if s == nil {
		return nil
	}
	return s.flush(ctx, false)
}

// flush sends the present content of all logs, or only of the logs of ended attempts.
func (s *Shipper) flush(ctx context.Context, ended bool) error {
	s.round.Lock()
	defer s.round.Unlock()
	err := s.send(ctx, ended)
	if failing := err != nil; failing != s.failing && ctx.Err() == nil {
		s.failing = failing
		if failing {
			s.log.Warn("logs cannot be written to their store; they are sent later", "code", "logs_delayed", "err", err)
		} else {
			s.log.Info("logs can be written to their store again", "code", "logs_resumed")
		}
	}
	s.mu.Lock()
	dropped := s.dropped
	s.dropped = 0
	s.mu.Unlock()
	if dropped > 0 {
		s.log.Warn("some logs stay on this machine only, because too many logs waited for their store", "code", "logs_dropped", "logs", dropped)
	}
	return err
}

// send reads all files once. Then it reads again the files that had more than one chunk.
func (s *Shipper) send(ctx context.Context, ended bool) error {
	turn := s.tails(ended)
	var batch []Chunk
	var of, more []*tail
	bytes, total := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		within, cancel := context.WithTimeout(ctx, sendMax)
		defer cancel()
		ends, err := s.to.Append(within, batch)
		if err != nil {
			return err
		}
		for i, end := range ends {
			if s.took(of[i], &batch[i], end) {
				more = append(more, of[i])
			}
		}
		batch, of, bytes = batch[:0], of[:0], 0
		return nil
	}
	for len(turn) > 0 && total < roundMax {
		more = nil
		for _, t := range turn {
			c, err := s.next(t)
			if err != nil {
				s.unread(t)
				s.log.Warn("a log cannot be read and is not sent", "code", "log_unreadable", "run", t.ref.Run, "task", t.ref.Name, "attempt", t.ref.Token, "err", err)
				s.drop(t)
				continue
			}
			if len(c.Data) == 0 {
				if t.over {
					s.keepIndex(t)
					s.drop(t)
				}
				continue
			}
			batch, of = append(batch, c), append(of, t)
			bytes, total = bytes+len(c.Data), total+len(c.Data)
			if bytes >= batchMax || len(batch) >= partsMax {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		if err := flush(); err != nil {
			return err
		}
		turn = more
	}
	return nil
}

// tails copies the list. It reads over before the files are read, because the output of an ended attempt is
// in its file by then.
func (s *Shipper) tails(ended bool) []*tail {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*tail
	for _, t := range s.live {
		if t.over || !ended {
			all = append(all, &tail{ref: t.ref, sent: t.sent, over: t.over})
		}
	}
	return all
}

// next reads the next chunk of a file. The chunk is empty if the file has not grown.
func (s *Shipper) next(t *tail) (Chunk, error) {
	c := Chunk{Ref: t.ref, Offset: t.sent}
	path := s.local.path(&t.ref)
	if path == "" {
		return c, ErrUnknown
	}
	file, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil // the task has not printed anything yet
	}
	if err != nil {
		return c, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return c, err
	}
	size := info.Size()
	s.mu.Lock()
	if l := s.live[t.ref.ID()]; l != nil {
		s.measured(l, l.sent, size)
	}
	s.mu.Unlock()
	if keep := s.to.Keep(); keep > 0 && size-c.Offset > keep {
		c.Offset, c.Cut = size-keep, true
	}
	c.Data = make([]byte, max(0, min(size-c.Offset, chunkMax)))
	n, err := file.ReadAt(c.Data, c.Offset)
	if errors.Is(err, io.EOF) {
		err = nil // another process has shortened the file
	}
	c.Data = c.Data[:n]
	return c, err
}

// took records the end of the log in the store. It returns true if there may be more to send.
func (s *Shipper) took(t *tail, c *Chunk, end int64) bool {
	if end < 0 {
		s.drop(t)
		return false
	}
	complete := t.sent+int64(len(c.Data)) == end && len(c.Data) < chunkMax
	t.sent = end
	if complete && t.over {
		s.keepIndex(t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[t.ref.ID()]; l != nil {
		s.measured(l, end, max(l.size, end))
		if complete && t.over {
			s.dropLocked(t)
		}
	}
	return !complete
}

// keepIndex copies the index of a log that was sent to a shared folder.
func (s *Shipper) keepIndex(t *tail) {
	to, shared := s.to.(Folder)
	if !shared || t.sent < logindex.From {
		return
	}
	if err := s.local.copyIndex(context.Background(), to, t.ref); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Debug("the index of a log was not copied; the node makes it when the log is read", "run", t.ref.Run, "task", t.ref.Name, "err", err)
	}
}

func (s *Shipper) drop(t *tail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLocked(t)
}

// unread gives up the rest of a log that cannot be read.
func (s *Shipper) unread(t *tail) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.live[t.ref.ID()]; l != nil {
		s.giveUp(l)
	}
}

func (s *Shipper) dropLocked(t *tail) {
	if l := s.live[t.ref.ID()]; l != nil {
		s.measured(l, l.size, l.size)
		if l.over {
			s.ended--
			if to, ok := s.to.(interface{ Ended(ref Ref) }); ok {
				to.Ended(l.ref)
			}
		}
		delete(s.live, t.ref.ID())
	}
}
