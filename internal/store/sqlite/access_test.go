package sqlite

import (
	"path/filepath"
	"reflect"
	"testing"

	"skein.dev/skein/internal/store"
)

// noRights undoes the migrations from format 12 on.
const noRights = "DROP TRIGGER version_stocked; DROP TRIGGER version_unstocked; DROP TRIGGER file_stocked; DROP TRIGGER file_unstocked; DROP TRIGGER trigger_stocked; DROP TRIGGER trigger_unstocked; DROP TRIGGER run_filled; DROP TRIGGER run_unstocked; DROP VIEW run_kept; DROP TABLE namespace_stock; " +
	"DROP TABLE run_hash; ALTER TABLE meta DROP keyed; ALTER TABLE meta DROP isolation; DROP TABLE tally; DROP TABLE tally_mark; DROP TABLE trace_mark; DROP TABLE namespace; DROP TABLE namespace_use; DROP TABLE member; DROP TABLE connection; ALTER TABLE workflow DROP tags; DROP TABLE git_source; DROP TABLE sent_event; DROP TABLE sent_head; DROP INDEX version_watched; DROP TABLE alert_rules; DROP TABLE member_lost; DROP TABLE alert_silence; DROP TABLE alert_channel; DROP TABLE incident; DROP TABLE notice; DROP TABLE audit; DROP TABLE audit_tree; DROP TABLE secret; DROP TABLE secret_key; DROP TABLE identity; DROP TABLE session; DROP TABLE password; DROP TABLE rights; DROP TABLE principal; DROP TABLE role; DROP TABLE binding; " +
	"DROP INDEX token_name; CREATE UNIQUE INDEX token_name ON token (name) WHERE revoked = 0; " +
	"ALTER TABLE token DROP worker_groups; ALTER TABLE token DROP worker_slots; ALTER TABLE token DROP uses; ALTER TABLE token DROP used; ALTER TABLE token DROP invite; ALTER TABLE token DROP parent; ALTER TABLE token DROP replaces; ALTER TABLE token DROP replaced; ALTER TABLE token DROP principal; ALTER TABLE token DROP verbs; ALTER TABLE token DROP namespaces; ALTER TABLE token DROP maker; "

// TestTokensBelongToTheFirstService: tokens of an earlier format keep their rights.
func TestTokensBelongToTheFirstService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skein.db")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	script(t, path, noRights+"PRAGMA user_version = 11; INSERT INTO token VALUES (3, 'api', 'ci', x'01', 5, 0, 0, 'ann')")
	if d, err = Open(path); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all, err := d.TokenList(t.Context())
	want := store.WholeToken("api", "ci", []byte{1})
	want.ID, want.Created, want.By = 3, 5, "ann"
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], want) {
		t.Errorf("tokens %+v, %v; want %+v", all, err, want)
	}
	r, err := d.Rights(t.Context())
	if err != nil || len(r.Principals) != 1 || r.Principals[0].ID != want.Principal || len(r.Bindings) != 1 ||
		r.Bindings[0].Role != store.FirstServiceRole || r.Bindings[0].Namespace != store.All {
		t.Errorf("rights %+v, %v", r, err)
	}
}

// TestLevelOfDatabase: a new database isolates tasks, and one of an earlier format keeps its level.
func TestLevelOfDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skein.db")
	for _, want := range []string{store.IsolationNew, ""} {
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := d.Info(t.Context()); err != nil || info.Isolation != want {
			t.Errorf("the level %q, %v; want %q", info.Isolation, err, want)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		script(t, path, "ALTER TABLE meta DROP isolation; ALTER TABLE namespace DROP run_as; ALTER TABLE session DROP origin; PRAGMA user_version = 38")
	}
}
