package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// schema is a schema of its own in a given PostgreSQL database.
type schema struct {
	name    string
	address string // the address, including the name
	options postgres.Options
}

// InSchema makes a schema in a PostgreSQL database, which is given in the form of the setting db. A schema
// that the setting names is not touched. Close drops the new schema.
func InSchema(ctx context.Context, address string) (Place, error) {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &schema{name: "skein_bench_" + hex.EncodeToString(random[:])}
	var err error
	if s.address, err = postgres.WithSchema(address, s.name); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if s.options, err = postgres.ParseAddress(s.address); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	s.options.Application = "skein bench"
	return s, s.run(ctx, "CREATE SCHEMA "+s.name)
}

func (s *schema) Engine() string   { return "postgres" }
func (s *schema) Database() string { return s.address }

func (s *schema) Open(ctx context.Context) (store.Store, error) {
	db, err := postgres.Open(ctx, s.options)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// dropMax bounds the time that dropping the schema may take.
const dropMax = time.Minute

// Close drops the schema, also after an interrupt.
func (s *schema) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dropMax)
	defer cancel()
	if err := s.run(ctx, "DROP SCHEMA IF EXISTS "+s.name+" CASCADE"); err != nil {
		return fmt.Errorf("%w; it is still there: DROP SCHEMA %s CASCADE", err, s.name)
	}
	return nil
}

// connect makes a connection that uses the schema and has the same settings as connections of the store.
func (s *schema) connect(ctx context.Context) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.options.URL)
	if err != nil {
		return nil, fmt.Errorf("bench: the address of the database: %w", err)
	}
	for name, value := range map[string]string{
		"application_name": s.options.Application, "search_path": s.name, "synchronous_commit": "on", "plan_cache_mode": "force_generic_plan",
		"jit": "off", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off",
	} {
		config.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("bench: connect to %s at %s:%d: %w", config.Database, config.Host, config.Port, err)
	}
	return conn, nil
}

// run runs one statement. The only text in it is a name that was made here.
func (s *schema) run(ctx context.Context, sql string) error {
	conn, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("bench: %s: %w", sql, err)
	}
	return nil
}
