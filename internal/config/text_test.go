package config

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestConfigFromAPipe: a pipe can be read only once, so a reload uses the text that was read from it at the
// start. A reload reads a file again.
func TestConfigFromAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("slots: 3\n"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := Loader(nil, filepath.Join("/dev/fd", strconv.Itoa(int(r.Fd()))))
	for _, when := range []string{"at the start", "at a reload"} {
		if c, err := read(); err != nil || c.Slots != 3 {
			t.Errorf("%s: %+v %v", when, c, err)
		}
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	read = Loader(nil, path)
	for slots := 4; slots < 6; slots++ {
		if err := os.WriteFile(path, []byte("slots: "+strconv.Itoa(slots)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := read(); err != nil || c.Slots != slots {
			t.Errorf("%d slots in the file: %+v %v", slots, c, err)
		}
	}
}
