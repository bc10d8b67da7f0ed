package memory

import (
	"context"
	"fmt"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Logs = (*Store)(nil)

// AppendLogs adds parts where their logs end.
func (s *Store) AppendLogs(ctx context.Context, parts []store.LogPart, keep int64) ([]store.LogSpan, error) {
	spans := make([]store.LogSpan, 0, len(parts))
	err := s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		for i := range parts {
			spans = append(spans, s.appendLogLocked(&parts[i], keep))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return spans, nil
}

func (s *Store) appendLogLocked(p *store.LogPart, keep int64) store.LogSpan {
	known := false
	if r := s.runs[p.Run]; r != nil {
		known = slices.ContainsFunc(r.attempts, func(a dag.AttemptRow) bool { return a.Task == p.Task && a.Token == p.Token })
	}
	log := s.logs[p.LogID]
	was := logSpan(log).End
	if known && p.Size > 0 && (p.Offset == was || p.Offset > was && p.Cut) {
		log = slices.Clone(log)
		last := len(log) - 1
		switch {
		case p.Offset > was:
			log = append(log[:0], copyPart(p))
		case last >= 0 && log[last].Size+p.Size <= store.LogBlockMax:
			log[last].Size += p.Size
			log[last].Data = slices.Concat(log[last].Data, p.Data)
		default:
			log = append(log, copyPart(p))
		}
		end := logSpan(log).End
		s.logs[p.LogID] = slices.DeleteFunc(log, func(b store.LogPart) bool { return b.Offset+int64(b.Size) <= end-keep })
	}
	span := logSpan(s.logs[p.LogID])
	span.Known = known
	return span
}

func copyPart(p *store.LogPart) store.LogPart {
	c := *p
	c.Data, c.Cut = slices.Clone(p.Data), false
	return c
}

func logSpan(log []store.LogPart) store.LogSpan {
	if len(log) == 0 {
		return store.LogSpan{}
	}
	last := log[len(log)-1]
	return store.LogSpan{First: log[0].Offset, End: last.Offset + int64(last.Size), Known: true}
}

// LogSpan returns the span of a log that is kept.
func (s *Store) LogSpan(ctx context.Context, id store.LogID) (store.LogSpan, error) {
	var span store.LogSpan
	err := s.read(ctx, Read, func() error {
		if span = logSpan(s.logs[id]); !span.Known {
			return fmt.Errorf("log of run %s: %w", id.Run, store.ErrNotFound)
		}
		return nil
	})
	return span, err
}

// LogBlock reads the part that contains the byte at an offset, or else the next part.
func (s *Store) LogBlock(ctx context.Context, id store.LogID, at int64) (store.LogPart, error) {
	var found store.LogPart
	err := s.read(ctx, Read, func() error {
		log := s.logs[id]
		i := slices.IndexFunc(log, func(p store.LogPart) bool { return p.Offset+int64(p.Size) > at })
		if i < 0 {
			return fmt.Errorf("log of run %s from byte %d: %w", id.Run, at, store.ErrNotFound)
		}
		found = copyPart(&log[i])
		return nil
	})
	return found, err
}

// DeleteLogs deletes all logs of runs.
func (s *Store) DeleteLogs(ctx context.Context, runs []dag.RunID) error {
	return s.write(ctx, Op{Kind: LogsBefore}, LogsAfter, func() error {
		for id := range s.logs {
			if slices.Contains(runs, id.Run) {
				delete(s.logs, id)
			}
		}
		return nil
	})
}
