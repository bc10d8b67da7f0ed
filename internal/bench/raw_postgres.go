package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	_ "embed"

	"github.com/jackc/pgx/v5"
)

//go:embed raw_postgres.sql
var rawPostgresSQL string

// rawConnections holds the numbers of connections to try. A connection and its client use one core
// alternately. The limit is the best of the rates.
var rawConnections = [...]int{1, 2}

// rawRows writes arrays of columns, with a statement for each table and kind. All statements of a transaction
// are sent at once.
func (s *schema) rawRows(ctx context.Context, txs int) (best float64, err error) {
	sql := map[string]string{}
	for _, part := range strings.Split(rawPostgresSQL, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		sql[name] = text
	}
	for _, n := range rawConnections {
		rows, err := s.rawRate(ctx, sql, n, txs)
		if err != nil {
			return 0, err
		}
		best = max(best, rows)
	}
	return best, s.run(ctx, "DROP TABLE raw_run, raw_attempt")
}

// rawRate measures with a number of connections.
func (s *schema) rawRate(ctx context.Context, sql map[string]string, connections, txs int) (float64, error) {
	var writers []rawWriter
	for i := range connections {
		conn, err := s.connect(ctx)
		if err != nil {
			return 0, err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		writers = append(writers, &rawPostgres{conn: conn, sql: sql, rows: int64(i) << 32})
	}
	// The simple protocol is needed, because these are several statements.
	if _, err := writers[0].(*rawPostgres).conn.PgConn().Exec(ctx, sql["tables"]).ReadAll(); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	return rate(ctx, writers, txs)
}

// rawPostgres writes rows that are as wide as those of the product, and does nothing else.
type rawPostgres struct {
	conn *pgx.Conn
	sql  map[string]string
	rows int64   // the number of rows in each table so far, counted from 0
	last []int64 // the ids of the previous transaction
}

// transaction inserts a quarter of its rows into each table, and updates the rows of the previous
// transaction.
func (w *rawPostgres) transaction(ctx context.Context) error {
	const quarter = rawRowsPerTx / 4
	now := time.Now().UnixMicro()
	numbers, ids, created := make([]int64, quarter), make([][16]byte, quarter), make([]int64, quarter)
	for i := range numbers {
		w.rows++
		numbers[i], created[i] = w.rows, now+int64(i)
		_, _ = rand.Read(ids[i][:]) // never fails
	}
	events, final := make([]byte, 12), make([]byte, 3)
	batch := &pgx.Batch{}
	batch.Queue(w.sql["insertRun"], numbers, ids, created, now, events)
	batch.Queue(w.sql["insertAttempt"], numbers, ids, now)
	if w.last != nil {
		batch.Queue(w.sql["updateRun"], w.last, now, final, events)
		batch.Queue(w.sql["updateAttempt"], w.last, now)
	}
	w.last = numbers
	return w.conn.SendBatch(ctx, batch).Close()
}
