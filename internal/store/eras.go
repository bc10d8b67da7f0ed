package store

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/dag"
)

// The parts of epochs. The upper half of an epoch is the era. Of the lower half, the upper 12 bits are the
// floor of the era, and the lower 20 bits count how often the shard was taken.
const (
	// EpochsOfEra is the amount by which an era raises the epochs of all shards.
	EpochsOfEra = 1 << 32
	// TakesOfEra bounds the number of times that a shard is taken in one era.
	TakesOfEra = 1 << 20
)

// EpochOf returns the first epoch of an era with this floor. The floor is the latest era that began because
// the database had gone back: attempts of earlier eras end. A later era may have begun without a loss.
//
// If the floor equals the era from its beginning, the bits of the floor are 0. Otherwise, and also if the
// floor rises to the era within that era, they are floor + 1. So the epochs of earlier versions keep their
// meaning, and a later epoch is always greater.
func EpochOf(era, floor dag.Era) int64 { return int64(era)*EpochsOfEra + (int64(floor)+1)*TakesOfEra }

// ErrLastEra is the ErrUnavailable of a database that has used up all of its eras.
var ErrLastEra = fmt.Errorf("era %d is the last that a database can have; apply the workflows to a new database: %w", dag.EraMax, ErrUnavailable)

// ErasMany is the era from which on Skein warns that few eras of the database are left.
const ErasMany = 1900

// ErrTakes is an ErrUnavailable: the shard was taken as often as one era allows. A greater count would
// overflow into the bits of the floor.
var ErrTakes = fmt.Errorf("a shard was taken %d times in this era, which is the limit; run skein db recovered, which begins the next era: %w",
	TakesOfEra-1, ErrUnavailable)

// Era is the era of the database in which the shard was taken.
func (f Fence) Era() dag.Era { return dag.Era(f.Epoch / EpochsOfEra) }

// Floor is the floor of that era: see EpochOf.
func (f Fence) Floor() dag.Era {
	if floor := f.Epoch % EpochsOfEra / TakesOfEra; floor > 0 {
		return dag.Era(floor - 1)
	}
	return f.Era()
}

// Takes is how often the shard was taken in that era.
func (f Fence) Takes() int64 { return f.Epoch % TakesOfEra }

// Eras is the part of a store that reads the progress of its shards and raises its era. A node that finds
// the store in an earlier state raises the era. Then no earlier owner holds a shard, and no earlier token is
// assigned again.
//
// A store of a server that can fail over also begins an era by itself, quietly: before a connection to
// another history of the server (Lineage) writes. It keeps the floor, so attempts continue.
type Eras interface {
	// Marks reads the epoch and seq of every shard, by shard, in one snapshot.
	Marks(ctx context.Context) ([]Fence, error)
	// EndOf reads the marks at which an era ended because the next one began quietly. It returns none if the
	// era is the present one, or did not end in this way.
	EndOf(ctx context.Context, era dag.Era) ([]Fence, error)
	// Raise begins the era to if the present era is from. In one transaction it sets the epochs of all
	// shards to the first epoch of that era, and its floor to the era. If to is from, it only raises the
	// floor of that era to the era, unless the floor is already there. If letter is not empty, it also
	// writes letter as a message from each shard to itself. It returns the era of the store afterwards,
	// which differs from to if the present era was not from. It waits for open transactions of owners.
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

// NextEra returns the era that begins quietly in a store of this era. When the present era began, the server
// was on the timeline was of the same system. It is on another timeline now. Two timelines of which neither
// continues the other get different eras, because the era grows with the timeline. known is an era that the
// caller has read.
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
	// Position is the end of the server's log at the time of the reading.
	Position int64
	// Replayed is the position up to which the server has the log of the previous timeline. It is known only
	// if the server was promoted and has not restarted since.
	Replayed int64
}

// Lined is a store that can read its lineage.
type Lined interface {
	Lineage(ctx context.Context) (Lineage, error)
	// Know tells the store an era that a process has read before. The next era that the store begins by
	// itself is greater.
	Know(era dag.Era)
}
