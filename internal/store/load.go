package store

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/dag"
)

// LoadMax bounds the shards and the callers of one Load, so that the row of a member stays small.
const LoadMax = 64

// Load is the work of a node for its shards, as measured rates. A node writes it into its row with each
// renewal.
type Load struct {
	// Shards has the costliest shards, in the order of their ids. The cost of any other shard is negligible.
	Shards []ShardLoad
	// Callers has those callers with a bound that have used the largest part of their bound at the node. It
	// has at most LoadMax elements.
	Callers []CallerUse `json:",omitempty"`
}

// CallerUse is the use of a node by one caller during the last beat.
type CallerUse struct {
	Name    string
	Rate    float64 `json:",omitempty"` // calls per second
	Streams int     `json:",omitempty"` // open streams
}

// ShardLoad is the work for one shard. The rates are averages of the recent past.
type ShardLoad struct {
	Shard   dag.ShardID
	Busy    float64 // seconds of the writer's time per second, from 0 to 1
	Rows    float64 // rows written per second
	Commits float64 // transactions per second that write to the shard
	Wait    float64 // seconds that an item waits for the writer
}

// NewLoad returns a load with the costliest of these shards.
func NewLoad(all []ShardLoad) *Load {
	all = slices.Clone(all)
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(a.Shard, b.Shard)) < 0
	})
	all = all[:min(len(all), LoadMax)]
	sort.Slice(all, func(i, j int) bool { return all[i].Shard < all[j].Shard })
	return &Load{Shards: all}
}

// MarshalJSON writes the figures as a list of whole numbers: the shard, then microseconds of writer time per
// second, rows and transactions per thousand seconds, and microseconds of wait.
func (s ShardLoad) MarshalJSON() ([]byte, error) {
	return json.Marshal([...]int64{int64(s.Shard), int64(s.Busy * 1e6), int64(s.Rows * 1e3), int64(s.Commits * 1e3), int64(s.Wait * 1e6)})
}

// UnmarshalJSON reads the form of MarshalJSON. It ignores figures of later versions at the end of the list.
func (s *ShardLoad) UnmarshalJSON(text []byte) error {
	var all []int64
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	if len(all) < 5 {
		return fmt.Errorf("%d figures for a shard, not 5", len(all))
	}
	*s = ShardLoad{Shard: dag.ShardID(all[0]), Busy: float64(all[1]) / 1e6, Rows: float64(all[2]) / 1e3, Commits: float64(all[3]) / 1e3, Wait: float64(all[4]) / 1e6}
	return nil
}

// Shift records that a shard was moved because of its load. It is kept until the shard moves again.
type Shift struct {
	At   dag.Micros    // 0 if the shard was never moved because of its load
	From dag.HandlerID // the owner before
	To   dag.HandlerID
	// Counts is the member in whose even share the shard counts, so that no other shard is moved in exchange.
	Counts dag.HandlerID
	Why    string
}

// ShiftMove requests a shift. From must own the shard under Epoch.
type ShiftMove struct {
	Shard            dag.ShardID
	Epoch            int64
	From, To, Counts dag.HandlerID
	Why              string
	Apart            time.Duration // the least time since the last shift of any shard
}

// WhyMax bounds the reason of a shift, in bytes.
const WhyMax = 300
