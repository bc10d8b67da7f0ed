package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"skein.dev/skein/internal/secret"
)

const (
	// callMax bounds one call of a provider.
	callMax = 10 * time.Second
	// callsMax bounds the number of concurrent calls of one provider, including calls that hang.
	callsMax = 8
	// awayMin is the time after a failed call during which further calls fail at once.
	awayMin = time.Second
	// entriesMax and bytesMax bound the values of one provider in memory.
	entriesMax, bytesMax = 1000, 4 << 20
)

// getter reads a value. Its error wraps secret.ErrUnknown if there is no such secret, and ErrAway if a later
// call may succeed. It may ignore the end of ctx.
type getter func(ctx context.Context, namespace, name string) ([]byte, error)

// checker checks whether values could be read, and returns a text about the result.
type checker func(ctx context.Context) (string, error)

type ref struct{ namespace, name string }

// source reads from one provider, within the limits of this package.
type source struct {
	*Source
	get   getter
	check checker
	log   *slog.Logger
	calls chan struct{} // cap callsMax: one for each call that has not returned

	mu      sync.Mutex // protects following fields
	kept    map[ref]kept
	bytes   int // bytes of kept
	pending map[ref]*call
	away    error     // the error of the last call; nil if the call succeeded
	again   time.Time // the time of the next permitted call, if away is set
}

// kept is a value in memory.
type kept struct {
	value []byte
	until time.Time
}

// call is a call on whose result callers wait. value and err are set before done is closed.
type call struct {
	done  chan struct{}
	value []byte
	err   error
}

func newSource(p *Source, get getter, check checker, log *slog.Logger) *source {
	return &source{Source: p, get: get, check: check, log: log, calls: make(chan struct{}, callsMax),
		kept: map[ref]kept{}, pending: map[ref]*call{}}
}

// value returns a value from memory, or from a call.
func (s *source) value(ctx context.Context, namespace, name string, quick bool) ([]byte, error) {
	r := ref{namespace, name}
	s.mu.Lock()
	now := time.Now()
	if k, ok := s.kept[r]; ok && now.Before(k.until) {
		s.mu.Unlock()
		return bytes.Clone(k.value), nil
	}
	if quick && s.Env == nil {
		s.mu.Unlock()
		return nil, ErrSlow
	}
	c := s.pending[r]
	if c == nil {
		if s.away != nil && now.Before(s.again) {
			defer s.mu.Unlock()
			return nil, s.away
		}
		c = &call{done: make(chan struct{})}
		s.pending[r] = c
		go s.run(c, r)
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return bytes.Clone(c.value), c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run makes one call for all waiting callers. The call continues if a caller gives up.
func (s *source) run(c *call, r ref) {
	ctx, cancel := context.WithTimeout(context.Background(), callMax)
	defer cancel()
	value, err := s.bounded(ctx, func() ([]byte, error) {
		value, err := s.get(ctx, r.namespace, r.name)
		if err == nil {
			if err = secret.CheckValue(value); err != nil {
				err = fmt.Errorf("%w: %w", ErrRefused, err)
			}
		}
		return value, err
	})
	if err == nil {
		c.value = value
	} else {
		c.err = fmt.Errorf("secret %s/%s: provider %s: %w", r.namespace, r.name, s.Name, err)
	}
	if errors.Is(err, secret.ErrUnknown) {
		c.err = err
	}
	s.mu.Lock()
	delete(s.pending, r)
	if err == nil {
		s.keep(r, value)
	}
	s.judge(err)
	s.mu.Unlock()
	close(c.done)
}

// judge records whether the provider answered. The caller holds s.mu.
func (s *source) judge(err error) {
	was := s.away
	s.away = nil
	if errors.Is(err, ErrAway) {
		s.away, s.again = fmt.Errorf("provider %s: %w", s.Name, err), time.Now().Add(awayMin)
	}
	switch {
	case was == nil && s.away != nil:
		s.log.Warn("a provider of secrets does not answer; attempts that need its secrets wait", "code", "secret_provider_away", "provider", s.Name, "err", err)
	case was != nil && s.away == nil:
		s.log.Info("a provider of secrets answers again", "code", "secret_provider_back", "provider", s.Name)
	}
}

// keep stores a value in the cache, and drops other values if the cache is full. The caller holds s.mu.
func (s *source) keep(r ref, value []byte) {
	if s.age == 0 {
		return
	}
	now := time.Now()
	s.drop(r)
	for one, k := range s.kept {
		if full := len(s.kept) >= entriesMax || s.bytes+len(value) > bytesMax; full || !now.Before(k.until) {
			s.drop(one)
		}
	}
	s.kept[r] = kept{bytes.Clone(value), now.Add(s.age)}
	s.bytes += len(value)
}

func (s *source) drop(r ref) {
	s.bytes -= len(s.kept[r].value)
	delete(s.kept, r)
}

// bounded runs a function until it returns or ctx ends. A function that has not returned still counts against
// callsMax.
func (s *source) bounded(ctx context.Context, do func() ([]byte, error)) ([]byte, error) {
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the calls before this one have not ended within %s", ErrAway, callMax)
	}
	type ended struct {
		value []byte
		err   error
	}
	done := make(chan ended, 1)
	go func() {
		defer func() { <-s.calls }()
		defer func() {
			if p := recover(); p != nil { // for example, the parser of a server's answer may panic
				done <- ended{nil, fmt.Errorf("%w: the call panicked: %v", ErrRefused, p)}
			}
		}()
		value, err := do()
		done <- ended{value, err}
	}()
	select {
	case e := <-done:
		if ctx.Err() != nil && e.err != nil {
			e.err = fmt.Errorf("%w within %s", ErrAway, callMax)
		}
		return e.value, e.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w within %s", ErrAway, callMax)
	}
}

// checked checks the provider within the time limit of a call.
func (s *source) checked(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	found, err := s.bounded(ctx, func() ([]byte, error) {
		text, err := s.check(ctx)
		return []byte(text), err
	})
	return string(found), err
}
