package store

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// The parts of epochs. The upper 32 bits of an epoch are the era. Of the lower 32 bits, the upper 12 are the
// floor of the era, and the lower 20 count how often the shard was taken.
const (
	// EpochsOfEra is the amount by which an era raises the epochs of all shards.
	EpochsOfEra = 1 << 32
	// TakesOfEra bounds the number of times that a shard is taken in one era.
	TakesOfEra = 1 << 20
)

// EpochOf returns the first epoch of an era with a floor. The floor is the latest era that began because the
// database had gone back to an earlier state: attempts of eras before the floor are ended. An era after the
// floor began without a loss.
func EpochOf(era, floor dag.Era) int64 { return int64(era)*EpochsOfEra + (int64(floor)+1)*TakesOfEra }

// ErrLastEra says that the database has used up all of its eras. It is an ErrUnavailable.
var ErrLastEra = fmt.Errorf("era %d is the last that a database can have; apply the workflows to a new database: %w", dag.EraMax, ErrUnavailable)

// ErasMany is the era from which on Skein warns that few eras of the database are left.
const ErasMany = 1900

// ErrTakes says that the shard was taken as often as one era allows. It is an ErrUnavailable. A greater count
// would overflow into the bits of the floor.
var ErrTakes = fmt.Errorf("a shard was taken %d times in this era, which is the limit; run skein db recovered, which begins the next era: %w",
	TakesOfEra-1, ErrUnavailable)

// Era returns the era of the database in which the shard was taken.
func (f Fence) Era() dag.Era { return dag.Era(f.Epoch / EpochsOfEra) }

// Floor returns the floor of that era: see EpochOf.
func (f Fence) Floor() dag.Era {
	if floor := f.Epoch % EpochsOfEra / TakesOfEra; floor > 0 {
		return dag.Era(floor - 1)
	}
	return f.Era()
}

// Takes returns how often the shard was taken in that era.
func (f Fence) Takes() int64 { return f.Epoch % TakesOfEra }

// Eras is the part of a store that reads the progress of its shards and raises its era. A node that finds
// that the store has gone back to an earlier state raises the era. Afterwards no earlier owner holds a shard,
// and no earlier token is assigned again.
//
// A store on a server that can fail over also begins an era by itself, before the first write of a connection
// to another history of the server (Lineage). Such an era begins quietly: it keeps the floor, so attempts
// continue.
type Eras interface {
	// Marks reads the epoch and seq of every shard, by shard, in one snapshot.
	Marks(ctx context.Context) ([]Fence, error)
	// EndOf reads the marks at which an era ended because the next era began quietly. It returns none if the
	// era is the present one, or if it ended in another way.
	EndOf(ctx context.Context, era dag.Era) ([]Fence, error)
	// Raise begins a new era, which the parameter to names, if the present era is the one that from names. In
	// one transaction it sets the epochs of all shards to the first epoch of the new era, and the floor to
	// the new era. If to equals from, Raise only raises the floor to that era, unless the floor is already
	// there. If letter is not empty, Raise also writes it as a message from each shard to itself. It returns
	// the era of the store afterwards. This is another era than to if the present era was another one than
	// from. Raise waits for open transactions of owners.
	Raise(ctx context.Context, from, to dag.Era, letter []byte) (dag.Era, error)
}

// EraOf returns the era of a store with these marks.
func EraOf(marks []Fence) (is dag.Era) {
	for _, m := range marks {
		is = max(is, m.Era())
	}
	return is
}

// FloorOf returns the floor of the era of a store with these marks.
func FloorOf(marks []Fence) (is dag.Era) {
	for _, m := range marks {
		is = max(is, m.Floor())
	}
	return is
}

// NextEra returns the era that begins quietly after an era. Of the two timelines that it gets, the first is
// the server's timeline when that era began, and the second is the present one. Two timelines of which
// neither continues the other get different eras, because the era grows with the timeline. known is the
// greatest era that the caller has read.
func NextEra(era, known dag.Era, was, is int64) dag.Era {
	next := max(era, known) + 1
	if grown := int64(era) + is - was; grown > int64(next) && grown <= dag.EraMax {
		next = dag.Era(grown)
	}
	return next
}

// Lineage identifies the server history that the rows belong to. A zero field is unknown.
type Lineage struct {
	System   string // the system identifier of the server's data
	Timeline int64  // rises with every promotion and every recovery to a point in time
	// Position is the end of the server's log when it was read.
	Position int64
	// Replayed is the position up to which the server has replayed the log of the previous timeline. It is
	// known only if the server was promoted and has not restarted since.
	Replayed int64
}

// Lined is a store that can read its lineage.
type Lined interface {
	Lineage(ctx context.Context) (Lineage, error)
	// Know tells the store an era that a process has read before. An era that the store begins by itself is
	// later than that.
	Know(era dag.Era)
}
