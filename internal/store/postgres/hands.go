package postgres

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

// plan decides how the attempts of a transaction are written, before any part of the transaction is sent. It
// may read outside of the transaction. That is safe if the fence matches, because then no other session has
// written for the shard since its owner took it or learned that the previous transaction had committed. plan
// may also run while the previous transaction is in flight. If that one fails, the fence of this transaction
// misses.
func (x *tx) plan(d *DB) error {
	err := x.past.Begin(x.batch.Events)
	if err == nil {
		x.hands, err = d.handed.Plan(x.batch, packed.HandPacker{
			Hands:   d.stands.Load() >= formatHands,
			Ends:    d.stands.Load() >= formatEnds,
			Weights: d.stands.Load() >= formatKept,
			Late:    true,
			History: x.past.Tells,
			Look:    x.look,
		})
	}
	if !errors.Is(err, store.ErrRefused) || len(x.batch.Fences) == 0 {
		return err
	}
	// A caller that does not own the shard must get that error first, so its batch is not examined.
	shards, epochs, seqs := make([]int32, 0, len(x.batch.Fences)), []int64(nil), []int64(nil)
	for _, f := range x.batch.Fences {
		shards, epochs, seqs = append(shards, int32(f.Shard)), append(epochs, f.Epoch), append(seqs, f.Seq)
	}
	if held := x.conn.query(x.ctx, "held", args{}.shards(shards).array(int8s(epochs)).array(int8s(seqs)), nil); held != nil {
		return held
	}
	return err
}

// look reads which attempts have rows, and the packed attempts of their runs.
func (x *tx) look(runs []dag.RunID, has func(dag.RunID, dag.TaskID, dag.Token), hands func(dag.RunID, []byte) error) error {
	a := args{}.array(ids(runs))
	return x.conn.queries(x.ctx, []query{{"attemptsThere", a, func(r *row) error {
		has(r.id(), dag.TaskID(r.int()), dag.Token(r.int()))
		return nil
	}}, {"loadNamedHands", a, func(r *row) error {
		return hands(r.id(), r.next())
	}}})
}

// wasFirst reports whether the database refused to insert the first row of an attempt because the attempt
// already has a row.
func (x *tx) wasFirst(doing string, answer *pgconn.PgError) bool {
	if answer.Code != codeUnique || answer.TableName != "attempt" {
		return false
	}
	if doing == x.folded {
		return slices.ContainsFunc(x.hands.Changes, func(w packed.AttemptWrite) bool { return w.Form == packed.FormFirst })
	}
	return strings.HasPrefix(doing, "firstAttempt")
}
