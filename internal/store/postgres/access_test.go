package postgres_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/store/postgres"
)

// TestTokensOfEarlierNodes: a token that a node of an earlier version makes belongs to the first service.
func TestTokensOfEarlierNodes(t *testing.T) {
	ctx, schema := t.Context(), newSchema()
	db, err := postgres.Open(ctx, postgres.Options{URL: server.URL("postgres"), Schema: schema, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "INSERT INTO "+schema+".token (kind, name, hash, created, expires, revoked, actor) VALUES ('api', 'ci', 'x', 5, 0, 0, 'ann')"); err != nil {
		t.Fatal(err)
	}
	want := store.WholeToken("api", "ci", []byte("x"))
	want.ID, want.Created, want.By = 1, 5, "ann"
	if all, err := db.TokenList(ctx); err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], want) {
		t.Errorf("tokens %+v, %v; want %+v", all, err, want)
	}
}
