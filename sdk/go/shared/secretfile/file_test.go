//go:build unix

package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// owned is a file with a given owner.
type owned struct {
	fs.FileInfo
	mode fs.FileMode
	uid  int
}

func (o owned) Mode() fs.FileMode { return o.mode }
func (o owned) IsDir() bool       { return o.mode.IsDir() }
func (o owned) Sys() any          { return &syscall.Stat_t{Uid: uint32(o.uid)} }

// TestRemedyKeepsAccess follows the remedy for a file of root. Afterwards the service must be able to read
// the file.
func TestRemedyKeepsAccess(t *testing.T) {
	for _, mode := range []fs.FileMode{0o644, 0o604, 0o660, 0o444} {
		err := closed(mode, "it", 0, 1000)
		if !errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), "chown 1000 it && chmod 600 it") || !strings.Contains(err.Error(), "0440") {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	for _, mode := range []fs.FileMode{0o440, 0o640, 0o400} {
		if err := closed(mode, "it", 0, 1000); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
}

// TestFileInAnOpenFolder checks that a secret file is refused if others can replace it, even behind a link.
// In a folder with the sticky bit they cannot.
func TestFileInAnOpenFolder(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	file, link := filepath.Join(dir, "token"), filepath.Join(away, "link")
	if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	own := ownGroup(info)
	for _, c := range []struct {
		of   string
		mode fs.FileMode
		path string
		open bool
	}{
		{dir, 0o777, file, true}, {dir, 0o777, link, true}, {dir, 0o770, file, !own}, {away, 0o777, link, true}, {away, 0o777, file, false},
		{dir, 0o777 | fs.ModeSticky, file, false}, {away, 0o777 | fs.ModeSticky, link, false}, {dir, 0o755, link, false},
	} {
		if err := os.Chmod(c.of, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := Read(c.path)
		if c.open != errors.Is(err, ErrOpen) || !c.open && (err != nil || string(got) != "x") {
			t.Errorf("%s in %s of mode %v: %q, %v", c.path, c.of, c.mode, got, err)
		}
		if err := os.Chmod(c.of, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClosed checks that a closed file can be replaced only by this user and root, and read only by them and,
// if root owns it, by its group.
func TestClosed(t *testing.T) {
	me := os.Geteuid()
	root := os.FileMode(0o640)
	if me == 0 {
		root = 0o600
	}
	for _, c := range []struct {
		owned
		says string
	}{
		{owned{mode: 0o600, uid: me}, ""},
		{owned{mode: 0o400, uid: me}, ""},
		{owned{mode: root, uid: 0}, ""},
		{owned{mode: 0o700 | fs.ModeDir, uid: me}, ""},
		{owned{mode: 0o755 | fs.ModeDir, uid: me}, ""},
		{owned{mode: 0o600, uid: me + 1}, "chown"},
		{owned{mode: 0o700 | fs.ModeDir, uid: me + 1}, "chown"},
		{owned{mode: 0o644, uid: me}, "chmod 600 it"},
		{owned{mode: 0o604, uid: me}, "chmod 600 it"},
		{owned{mode: 0o660, uid: 0}, "chmod 6"},
		{owned{mode: 0o602, uid: me}, "chmod 600 it"},
		{owned{mode: 0o770 | fs.ModeDir, uid: me}, "chmod 750 it"},
		{owned{mode: 0o777 | fs.ModeDir | fs.ModeSticky, uid: me}, "chmod 755 it"},
	} {
		err := Closed(c.owned, "it")
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v of %d: %v, want %q", c.mode, c.uid, err, c.says)
		}
	}
}
