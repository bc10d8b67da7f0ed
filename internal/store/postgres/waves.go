package postgres

import (
	"slices"
	"sync"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// The table active lists the unfinished runs, with an insert and a delete for each run. For a run of one task
// this would be a ninth of the database's work. Most runs that a large transaction starts end within a few
// transactions. So they share one row of another table, a wave. The row is deleted when the last of them has
// ended. If only a few runs of a wave are left, they are listed in active, and the row is deleted. The view
// unfinished contains both.

const (
	// waveMax bounds the waves of a shard: every reader of the list unpacks all of them.
	waveMax = 16
	// waveFew decides when a wave ends: it ends when less than 1/waveFew of its runs is left.
	waveFew = 4
)

// waveMin is the least number of runs of a wave.
var waveMin = 16

// waves holds the waves that the writers know of their shards. A new owner of a shard unpacks its waves
// before it reads its runs. The same is done in the first transaction after a transaction with an unknown
// outcome.
type waves struct {
	mu sync.Mutex
	of map[dag.ShardID]*shardWaves // the known waves, by shard
}

type shardWaves struct {
	seq  map[dag.RunID]int64 // unfinished run → the number of its wave
	live map[int64]*wave
}

// wave holds the runs that one transaction started.
type wave struct {
	runs []dag.RunID
	left int // the number of its runs that have not ended
}

// wavePlan says how a transaction changes waves.
type wavePlan struct {
	unpack []int32               // the shards whose waves are unpacked
	starts map[dag.ShardID]*wave // shard → the wave that the transaction begins
	// ended says, for each update of a run, whether the update ends a run that was in a wave and so is not in
	// active.
	ended  []bool
	gone   []waveKey
	listed []listedRun // the unfinished runs of the unpacked waves
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

// rides reports whether a new run is put into a wave.
func (p *wavePlan) rides(r *dag.RunRow) bool { return p.starts[r.Shard] != nil && begins(r) }

// begins reports whether a new run begins at once. A run that waits is not put into a wave, because it may
// wait for a long time.
func begins(r *dag.RunRow) bool { return r.State == dag.RunRunning || r.State == dag.RunSplitting }

// leaves reports whether the update ends a run that is in a wave.
func (p *wavePlan) leaves(update int) bool { return p.ended != nil && p.ended[update] }

// known reports whether the waves of all shards of a batch are known, so that none has to be unpacked.
func (w *waves) known(b *store.Batch) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(b.Fences, func(f store.Fence) bool { return w.of[f.Shard] == nil })
}

// plan records how a batch changes waves. If the outcome of the batch is unknown, the caller must call
// forget.
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
	for _, f := range b.Fences { // this must come after all ends of the batch are recorded
		w.of[f.Shard].dissolve(&p, f.Shard)
	}
	w.start(&p, b)
	return p
}

// end reports whether a run that ends was in a wave.
func (w *waves) end(r *dag.RunUpdate) bool {
	of := w.of[r.Shard]
	if of == nil {
		return false // this process does not write for the shard, so the commit will be refused
	}
	seq, in := of.seq[r.ID]
	if in {
		delete(of.seq, r.ID)
		of.live[seq].left--
	}
	return in
}

// dissolve ends the waves with few runs left.
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

// forget drops what is known about the waves of some shards.
func (w *waves) forget(shards []dag.ShardID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range shards {
		delete(w.of, id)
	}
}

// failed handles a batch with an unknown outcome.
func (w *waves) failed(b *store.Batch) {
	for _, f := range b.Fences {
		w.forget([]dag.ShardID{f.Shard})
	}
}

// unpackOwned lists in active the runs of the waves of shards that a new owner has just taken, because the
// statement that takes shards does not do so.
func unpackOwned(owner dag.HandlerID, shards []dag.ShardID) query {
	return query{"unpackOwned", args{}.shards(numbers(shards)).int8(int64(owner)), nil}
}

// unpackWaves lists in active the runs of waves that this process does not know.
func (x *tx) unpackWaves() {
	if x.waves.unpack != nil {
		x.send("unpackWaves", args{}.shards(x.waves.unpack))
	}
}

// changeWaves adds and deletes the rows of waves.
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
