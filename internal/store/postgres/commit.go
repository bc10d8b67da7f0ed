package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/packed"
)

const (
	// commitMax bounds how long the caller waits for the answer to a transaction. After that the outcome is
	// unknown.
	commitMax = time.Minute
	// chunkRows and chunkBytes bound one statement. The client prepares the next statement while the database
	// works on this one.
	chunkRows  = 1000
	chunkBytes = 8 << 20
	// flushRows is the number of rows from which a statement is sent at once, so that the database begins
	// with it while the client makes the next one. For fewer rows the extra wake-up costs more than it saves.
	flushRows = 50
)

// Commit implements store.Store.
func (d *DB) Commit(ctx context.Context, b *store.Batch) (dag.Micros, error) {
	err := ended(ctx, "commit")
	if err == nil {
		err = d.check(b)
	}
	var now dag.Micros
	f := d.flights.take(b)
	defer d.flights.remove(f)
	if err == nil {
		if now, err = d.commit(ctx, b, f); err != nil {
			err = fmt.Errorf("commit: %w", err)
		}
	} else if f != nil {
		d.drop(f)
	}
	if err != nil {
		d.handed.Failed(b)
		d.waves.failed(b)
	}
	return now, err
}

// commit carries out a transaction. f is its flight if it was staged, or nil.
func (d *DB) commit(ctx context.Context, b *store.Batch, f *flight) (dag.Micros, error) {
	if f != nil && f.ahead {
		if now, ahead, err := d.finish(f); ahead {
			return now, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	c, err := writerOf(ctx, d, d.writers.take)
	if err != nil {
		return 0, err
	}
	defer d.writers.give(c)
	if err := c.prepareWrites(ctx); err != nil {
		return 0, err
	}
	x := tx{ctx: ctx, conn: c, batch: b, flight: f}
	if d.stands.Load() >= formatWaves {
		x.waves = d.waves.plan(b)
	}
	x.tags, x.keeps = d.stands.Load() >= formatTags, d.stands.Load() >= formatKept
	x.small = small(b) && x.waves.none()
	if err := x.plan(d); err != nil {
		return 0, err
	}
	return x.commit()
}

// writeNames are the statements of a transaction. Statements with a form for one row are prepared in both
// forms.
var writeNames = []string{"fence", "hold", "insertRun", "updateRun", "fillRun", "enlist", "listState", "unlistState", "listTag", "relist", "strike", "unpackWaves", "insertWave", "dropWaves", "await", "met", "insertEvent", "insertEventAhead", "insertAttempt", "firstAttempt", "updateAttempt",
	"insertWorkflow", "updateWorkflow", "insertVersion", "insertFile", "insertRequest", "insertMessage",
	"consumeMessages", "insertTrigger", "updateTrigger", "deleteTrigger", "hear", "unhear", "insertFire", "updateFire",
	"insertBackfill", "updateBackfill", "insertBackfillRun",
	"putInLine", "leaveLine", "insertQueue", "updateQueue", "deleteQueue", "paceQueue", "insertAudit", "insertIncident", "updateIncident", "insertNotice", "putUse", "withinQuotas", "putStock", "withinStock", "clock"}

// prepareWrites prepares all statements of transactions before the first commit of a connection.
func (c *conn) prepareWrites(ctx context.Context) error {
	if c.writes {
		return nil
	}
	names := slices.Clone(writeNames)
	for _, name := range writeNames {
		if c.sql[single(name)] != "" {
			names = append(names, single(name))
		}
	}
	err := c.prepare(ctx, names...)
	c.writes = err == nil
	return err
}

// tx is a transaction that is being sent. There is no BEGIN and no COMMIT: all statements up to one Sync are
// one transaction, and the database commits it at the Sync or not at all.
type tx struct {
	ctx   context.Context
	conn  *conn
	batch *store.Batch
	// flight gets the runs of this transaction when they are sent, unless the transaction lists runs that are
	// not known. It is nil if the batch was not staged.
	flight *flight
	ahead  bool // the transaction is sent before its fence: see ahead.go
	p      *pgconn.Pipeline
	past   packed.Past
	hands  *packed.HandPlan
	waves  wavePlan
	owned  []int32 // shards
	sent   []string
	fail   error // if it is set, no further statement may be sent
	// small reports whether the statements are held until the transaction is complete; see fold.go.
	small  bool
	tags   bool // all programs know the tags of runs
	keeps  bool // all programs know RunRow.Kept
	held   []held
	folded string // the name of the one statement into which the transaction was folded
}

func (x *tx) commit() (dag.Micros, error) {
	if !x.small {
		x.begin()
	}
	x.fence()
	x.unpackWaves()
	x.write()
	if x.small {
		if x.fail == nil {
			x.fail = x.fold()
		}
		if x.fail != nil {
			return 0, translate("send", x.fail) // nothing was sent
		}
		x.begin()
		x.sendHeld()
	}
	return x.end()
}

func (x *tx) begin() { x.p = x.conn.StartPipeline(x.ctx) }

// end sends the end of the transaction and reads the outcome.
func (x *tx) end() (dag.Micros, error) {
	if !x.small {
		x.send("clock", nil)
	}
	if x.fail != nil {
		// The Sync was not sent, so the database cannot commit the part of the transaction that it received.
		hangUp(x.conn)
		_ = x.p.Close()
		return 0, translate("send", x.fail)
	}
	if err := x.p.Sync(); err != nil {
		_ = x.p.Close()
		return 0, fmt.Errorf("send: %w: %w", store.ErrUnknown, err)
	}
	if x.flight != nil && x.waves.unpack == nil { // the database is working on the transaction, so there is time
		x.flight.tell(runsOf(x.batch), &x.waves)
	}
	var now dag.Micros
	answered, err := x.answers(&now)
	closing := x.p.Close()
	if err == nil {
		err = closing
	}
	if err == nil {
		return now, nil
	}
	doing := "end"
	if answered < len(x.sent) {
		doing = x.sent[answered]
	}
	return 0, x.outcome(doing, err, answered)
}

// answers reads the answers to all statements, up to the end of the transaction.
func (x *tx) answers(now *dag.Micros) (answered int, err error) {
	clock := func(r *row) error { // the clock is the last column of the last statement
		r.col = len(r.values) - 1
		*now = r.micros()
		return nil
	}
	for answered < len(x.sent) {
		see := clock
		if answered < len(x.sent)-1 {
			see = nil
		}
		if err := show(x.p, see); err != nil {
			return answered, err
		}
		answered++
	}
	got, err := x.p.GetResults()
	if _, ok := got.(*pgconn.PipelineSync); err == nil && !ok {
		err = fmt.Errorf("an answer of type %T", got)
	}
	return answered, err
}

// outcome returns the error of a transaction that was sent completely. If the database returned an error, it
// has rolled the transaction back. If the connection ended before the database had answered every statement,
// the transaction was not committed either. If it ended later, the outcome is unknown.
func (x *tx) outcome(doing string, err error, answered int) error {
	var answer *pgconn.PgError
	if errors.As(err, &answer) && (!fatal(answer) || answered < len(x.sent)) {
		if x.wasFirst(doing, answer) {
			return fmt.Errorf("an attempt is not in the state that its owner has in memory: it has a row: %w", store.ErrFenced)
		}
		if answer.Code == codeQuota {
			if over := overQuota(answer.Message, hourOf(x.batch)); over != nil {
				return over
			}
		}
		return translate(doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, store.ErrUnknown, err)
}

// send sends a statement.
func (x *tx) send(name string, params [][]byte) {
	if x.fail != nil {
		return
	}
	x.p.SendQueryStatement(x.conn.prepared[name], params, binaryForm, binaryForm)
	x.sent = append(x.sent, name)
}

// push sends the collected rows of a statement, if there are any.
func (x *tx) push(r *rows, more ...[]byte) {
	if x.fail == nil {
		x.fail = r.fail
	}
	if r.n > 0 && x.fail == nil && x.small {
		sent, params := r.call()
		x.held = append(x.held, held{r.name, sent, params, more})
	} else if r.n > 0 && x.fail == nil {
		statement, params := r.call()
		x.send(statement, append(params, more...))
		if r.n >= flushRows {
			if x.fail = x.p.Flush(); x.fail != nil {
				x.fail = fmt.Errorf("%w: %w", store.ErrUnavailable, x.fail)
			}
		}
	}
	r.reset()
}

// full pushes the collected rows if there are enough for one statement.
func (x *tx) full(r *rows, more ...[]byte) {
	if r.n >= chunkRows || r.bytes >= chunkBytes || r.fail != nil {
		x.push(r, more...)
	}
}
