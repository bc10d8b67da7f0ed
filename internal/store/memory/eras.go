package memory

import (
	"context"
	"slices"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

var _ store.Eras = (*Store)(nil)

// eras implements store.Eras for the store that embeds it.
type eras struct{ s *Store }

// Marks implements store.Eras.
func (e eras) Marks(ctx context.Context) (all []store.Fence, err error) {
	s := e.s
	return all, s.read(ctx, Members, func() error {
		all = marksOf(s)
		return nil
	})
}

func marksOf(s *Store) (all []store.Fence) {
	for i := range s.shards {
		all = append(all, store.Fence{Shard: dag.ShardID(i), Epoch: s.shards[i].epoch, Seq: s.shards[i].seq})
	}
	return all
}

// Raise implements store.Eras.
func (e eras) Raise(ctx context.Context, from, to dag.Era, letter []byte) (is dag.Era, err error) {
	s := e.s
	err = s.member(ctx, func() error {
		if is = store.EraOf(marksOf(s)); is != from {
			return nil
		}
		is = to
		for i := range s.shards {
			s.shards[i].epoch = int64(to) * store.EpochsOfEra
			if len(letter) > 0 {
				s.lastID++
				s.messages = append(s.messages, store.Message{ID: s.lastID, From: dag.ShardID(i), To: dag.ShardID(i), Payload: slices.Clone(letter), Created: s.clock()})
			}
		}
		return nil
	})
	return is, err
}
