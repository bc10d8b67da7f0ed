package datadir

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDataFolderOfOthers: a data folder into which others can write is refused with the command that closes it.
func TestDataFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o777, 0o775, 0o707, 0o720} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		err := Prepare(dir)
		if !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), fmt.Sprintf("chmod %o %s", mode&^0o022, dir)) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o755, 0o700} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := Prepare(dir); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}
