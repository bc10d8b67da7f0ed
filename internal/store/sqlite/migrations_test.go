package sqlite

import (
	"testing"

	"skein.dev/skein/internal/zipped/zippedtest"
)

// TestMigrationsArePacked: the embedded archive holds the migrations as they are in their folder.
func TestMigrationsArePacked(t *testing.T) {
	t.Parallel()
	zippedtest.Compare(t, "migrations.zip.gz", "migrations/*.sql")
}
