package worker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSettled checks that every change of an attempt to its folders is noticed, and that the folders are then
// cleaned.
func TestSettled(t *testing.T) {
	t.Parallel()
	s := &slot{wake: -1, folder: filepath.Join(t.TempDir(), "slot")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(errors.Join(os.MkdirAll(s.dir(), 0o700), os.Mkdir(s.tmp(), 0o700)))
	for name, touch := range map[string]func(){
		"a file":           func() { must(os.WriteFile(s.dir()+"/x", nil, 0o600)) },
		"a temporary file": func() { must(os.WriteFile(s.tmp()+"/x", nil, 0o600)) },
		"an output":        func() { must(os.WriteFile(s.folder+"/run.t.1.out", []byte("a=1\n"), 0o600)) },
		"made and gone":    func() { must(os.WriteFile(s.dir()+"/x", nil, 0o600)); must(os.Remove(s.dir() + "/x")) },
		"another mode":     func() { must(os.Chmod(s.dir(), 0o500)) },
		"another folder":   func() { must(os.Rename(s.dir(), s.folder+"/moved")); must(os.Mkdir(s.dir(), 0o700)) },
		"times set back": func() {
			info, err := os.Lstat(s.dir())
			must(err)
			must(os.WriteFile(s.dir()+"/x", nil, 0o600))
			must(os.Chtimes(s.dir(), time.Time{}, info.ModTime()))
		},
		"gone": func() { must(os.RemoveAll(s.folder)) },
	} {
		must(s.clean())
		if s.settled(s.since.Add(s.grain())) {
			t.Errorf("%s: folders that were cleaned just now are trusted", name)
		}
		time.Sleep(clockGrainFine)
		s.since = s.since.Add(-2 * clockGrain)
		if !s.settled(time.Now()) {
			t.Errorf("%s: untouched folders are not recognised", name)
		}
		touch()
		if s.settled(time.Now()) {
			t.Errorf("%s does not show", name)
		}
		must(s.clean())
		if names, ok := peek(s.dir()); !ok || len(names) != 0 {
			t.Errorf("%s: left are %q, %v", name, names, ok)
		}
		if names, ok := peek(s.tmp()); !ok || len(names) != 0 {
			t.Errorf("%s: left are %q, %v", name, names, ok)
		}
		if names, ok := peek(s.folder); !ok || len(names) != 2 {
			t.Errorf("%s: left are %q, %v", name, names, ok)
		}
	}
}

// TestClockGrain checks that where ctime has only whole seconds, two changes within a longer time may look
// alike.
func TestClockGrain(t *testing.T) {
	t.Parallel()
	fine, coarse := face{}, face{}
	fine.ctime.Sec, coarse.ctime.Sec, fine.ctime.Nsec = 1, 1, 1
	for looks, grain := range map[looks]time.Duration{
		{fine, fine, fine}: clockGrainFine, {fine, fine, coarse}: clockGrain, {fine, coarse, fine}: clockGrain,
		{coarse, fine, fine}: clockGrain, {coarse, coarse, coarse}: clockGrain,
	} {
		if s := (&slot{looks: looks}); s.grain() != grain {
			t.Errorf("%v: %v", looks, s.grain())
		}
	}
}
