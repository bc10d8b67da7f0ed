package postgres

import (
	"testing"

	"skein.dev/skein/internal/zipped/zippedtest"
)

// TestScriptsArePacked: the embedded archive holds the migrations and statements as they are in their files.
func TestScriptsArePacked(t *testing.T) {
	t.Parallel()
	zippedtest.Compare(t, "sql.zip.gz", "migrations/*.sql", "*.sql")
}
