package postgres

import (
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The list of unfinished runs is table active: an insert and a delete for each run, a ninth of what a run of one task
// costs the database. The runs that a large transaction starts are mostly over a few transactions later; so they are one row of
// another table, a wave, which goes when the last of them has ended, or when only a few are left, which then are
// listed like others. View unfinished has both.

const (
	// waveMax is how many waves a shard has at most: whoever reads the list unpacks them all.
	waveMax = 16
	// waveFew is the part of a wave that it is not kept for.
	waveFew = 4
)

// waveMin is how many runs make a wave.
var waveMin = 16

// waves is what a store's writers know of the waves of their shards. Who takes a shard unpacks those that there are, before
// it reads its runs; and so does the first transaction after one that was not surely written.
type waves struct {
	mu sync.Mutex
	of map[dag.ShardID]*shardWaves // those that are known
}

type shardWaves struct {
	seq  map[dag.RunID]int64 // the wave that a run is in, until it ends
	live map[int64]*wave
}

// wave is the runs that one transaction started.
type wave struct {
	runs []dag.RunID
	left int // have not ended
}

// wavePlan is what a transaction does to waves.
type wavePlan struct {
	unpack []int32               // shards
	starts map[dag.ShardID]*wave // the wave of each shard
	ended  []bool                // by the updates of runs, if any: it was in a wave, so it is not on the list
	gone   []waveKey
	listed []listedRun // what is left of those
}

type waveKey struct {
	shard dag.ShardID
	seq   int64
}

type listedRun struct {
	run   dag.RunID
	shard dag.ShardID
}

// none reports whether the transaction changes no wave.
func (p *wavePlan) none() bool { return p.unpack == nil && p.starts == nil && p.gone == nil }

// rides reports whether a new run is in a wave.
func (p *wavePlan) rides(r *dag.RunRow) bool { return p.starts[r.Shard] != nil && begins(r) }

// begins reports whether a new run goes on at once: one that waits may do so for long.
func begins(r *dag.RunRow) bool { return r.State == dag.RunRunning || r.State == dag.RunSplitting }

// leaves reports whether the run of an update ends in a wave.
func (p *wavePlan) leaves(update int) bool { return p.ended != nil && p.ended[update] }

// known reports whether nothing of the shards of a batch need be unpacked.
func (w *waves) known(b *store.Batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(b.Fences, func(f store.Fence) bool { return w.of[f.Shard] == nil })
}

// plan takes in what a batch will have done. If it then is not surely written, call forget.
func (w *waves) plan(b *store.Batch) (p wavePlan) {
	if len(b.RunInserts)+len(b.RunUpdates) == 0 {
		return p
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range b.Fences {
		if w.of[f.Shard] == nil {
			if w.of == nil {
				w.of = map[dag.ShardID]*shardWaves{}
			}
			w.of[f.Shard] = &shardWaves{map[dag.RunID]int64{}, map[int64]*wave{}}
			p.unpack = append(p.unpack, int32(f.Shard))
		}
	}
	for i := range b.RunUpdates {
		if r := &b.RunUpdates[i]; r.FinishedAt != 0 {
			if w.end(r) {
				if p.ended == nil {
					p.ended = make([]bool, len(b.RunUpdates))
				}
				p.ended[i] = true
			}
		}
	}
	for _, f := range b.Fences { // when all that end have ended
		w.of[f.Shard].dissolve(&p, f.Shard)
	}
	w.start(&p, b)
	return p
}

// end reports whether a run that ends was in a wave.
func (w *waves) end(r *dag.RunUpdate) bool {
	of := w.of[r.Shard]
	if of == nil {
		return false // it is refused
	}
	seq, in := of.seq[r.ID]
	if in {
		delete(of.seq, r.ID)
		of.live[seq].left--
	}
	return in
}

// dissolve ends the waves of which few are left.
func (s *shardWaves) dissolve(p *wavePlan, shard dag.ShardID) {
	for seq, is := range s.live {
		if is.left*waveFew > len(is.runs) {
			continue
		}
		for _, id := range is.runs {
			if at, in := s.seq[id]; in && at == seq {
				delete(s.seq, id)
				p.listed = append(p.listed, listedRun{id, shard})
			}
		}
		delete(s.live, seq)
		p.gone = append(p.gone, waveKey{shard, seq})
	}
}

func (w *waves) start(p *wavePlan, b *store.Batch) {
	if len(b.RunInserts) < waveMin {
		return
	}
	count := map[dag.ShardID]int{}
	for i := range b.RunInserts {
		if r := &b.RunInserts[i]; begins(r) {
			count[r.Shard]++
		}
	}
	for _, f := range b.Fences {
		if of, n := w.of[f.Shard], count[f.Shard]; n >= waveMin && len(of.live) < waveMax {
			if p.starts == nil {
				p.starts = map[dag.ShardID]*wave{}
			}
			is := &wave{make([]dag.RunID, 0, n), n}
			p.starts[f.Shard], of.live[f.Seq+1] = is, is
		}
	}
	for i := range b.RunInserts {
		if r := &b.RunInserts[i]; p.rides(r) {
			is := p.starts[r.Shard]
			is.runs = append(is.runs, r.ID)
		}
	}
	for _, f := range b.Fences {
		if is := p.starts[f.Shard]; is != nil {
			for _, id := range is.runs {
				w.of[f.Shard].seq[id] = f.Seq + 1
			}
		}
	}
}

// forget drops what is known of some shards.
func (w *waves) forget(shards []dag.ShardID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range shards {
		delete(w.of, id)
	}
}

// failed takes in that a batch was not surely written.
func (w *waves) failed(b *store.Batch) {
	for _, f := range b.Fences {
		w.forget([]dag.ShardID{f.Shard})
	}
}

// unpackOwned lists the runs of waves of shards that somebody has just taken: its reading of them unpacks none.
func unpackOwned(owner dag.HandlerID, shards []dag.ShardID) query {
	return query{"unpackOwned", args{}.shards(numbers(shards)).int8(int64(owner)), nil}
}

// unpackWaves lists the runs of waves that nobody knows.
func (x *tx) unpackWaves() {
	if x.waves.unpack != nil {
		x.send("unpackWaves", args{}.shards(x.waves.unpack))
	}
}

// changeWaves begins and ends waves.
func (x *tx) changeWaves(*store.Batch) {
	for _, f := range x.batch.Fences {
		if is := x.waves.starts[f.Shard]; is != nil {
			x.send("insertWave", args{}.int4(int32(f.Shard)).int8(f.Seq+1).array(ids(is.runs)))
		}
	}
	if x.waves.gone == nil {
		return
	}
	shards, seqs := make([]int32, 0, len(x.waves.gone)), make([]int64, 0, len(x.waves.gone))
	for _, k := range x.waves.gone {
		shards, seqs = append(shards, int32(k.shard)), append(seqs, k.seq)
	}
	x.send("dropWaves", args{}.shards(shards).array(int8s(seqs)))
	list := x.conn.room("enlist")
	for _, is := range x.waves.listed {
		list.row().id(&is.run).int4(int32(is.shard))
		x.full(list)
	}
	x.push(list)
}
