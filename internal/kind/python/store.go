//go:build linux

package python

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// store is the folder with the environments of a namespace. An environment NAME has a folder NAME and a file
// NAME.lock. Once it is complete, it also has a file NAME.done with its size. A builder holds the lock
// exclusively, and the attempts that use the environment share it. The kernel releases the lock of a process
// whenever the process ends. So a folder without NAME.done whose lock is free is the rest of a killed build.
//
// The modification time of the lock is the time of the last use.
type store struct{ folder string }

func (s store) env(name string) string  { return filepath.Join(s.folder, name) }
func (s store) lock(name string) string { return filepath.Join(s.folder, name+".lock") }
func (s store) done(name string) string { return filepath.Join(s.folder, name+".done") }

// mark is the content of a file NAME.done.
type mark struct {
	Bytes int64 `json:"bytes"`
}

func (s store) mark(name string) (m mark, ok bool) {
	text, err := os.ReadFile(s.done(name))
	return m, err == nil && json.Unmarshal(text, &m) == nil
}

// lockEvery is the interval at which a waiting builder tries to take the lock.
const lockEvery = 100 * time.Millisecond

// hold takes the lock of an environment, exclusively or shared. If it must wait, it calls waits once. Closing
// the returned file releases the lock.
func (s store) hold(ctx context.Context, name string, how int, waits func()) (*os.File, error) {
	flags := os.O_RDWR | os.O_CREATE
	if how == unix.LOCK_SH {
		flags = os.O_RDONLY
	}
	for tries := 0; ; tries++ {
		f, err := os.OpenFile(s.lock(name), flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil && s.current(f) {
			return f, nil
		}
		if closing := f.Close(); closing != nil {
			return nil, closing
		}
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, fmt.Errorf("lock the environment: %w", err)
		}
		if tries == 0 && err != nil {
			waits()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// current reports whether a file is still the lock of its environment. Eviction removes locks, so a new one
// may have taken its place.
func (s store) current(f *os.File) bool {
	mine, err := f.Stat()
	now, err2 := os.Stat(f.Name())
	return err == nil && err2 == nil && os.SameFile(mine, now)
}

// ensure calls build if the environment is not complete.
func (s store) ensure(ctx context.Context, name string, waits func(), build func(at string) error) error {
	for {
		if s.use(name) {
			return nil
		}
		f, err := s.hold(ctx, name, unix.LOCK_EX, waits)
		if err != nil {
			return err
		}
		_, ok := s.mark(name)
		if !ok {
			err = s.make(name, build)
		}
		if err := errors.Join(err, f.Close()); err != nil || !ok {
			return err
		}
	}
}

// use records the use of a complete environment. It returns false if there is none, or if another process
// holds its lock exclusively.
func (s store) use(name string) bool {
	f, err := os.Open(s.lock(name))
	if err != nil {
		return false
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil || !s.current(f) {
		return false
	}
	_, ok := s.mark(name)
	now := time.Now()
	return ok && os.Chtimes(f.Name(), now, now) == nil
}

// make builds an environment. The caller must hold its lock exclusively.
func (s store) make(name string, build func(at string) error) error {
	at := s.env(name)
	if err := os.RemoveAll(at); err != nil {
		return fmt.Errorf("remove the rest of a build that was killed: %w", err)
	}
	if err := build(at); err != nil {
		return errors.Join(err, os.RemoveAll(at))
	}
	m, now := mark{Bytes: size(at)}, time.Now()
	if err := os.Chtimes(s.lock(name), now, now); err != nil { // the build may have taken longer than restAge
		return err
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(s.done(name)+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.done(name)+".new", s.done(name))
	}
	if err != nil {
		return fmt.Errorf("mark the environment as complete: %w", err)
	}
	return nil
}

// size returns the bytes of all files in a folder. It ignores files that it cannot read.
func size(at string) (n int64) {
	_ = filepath.WalkDir(at, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}

// restAge is the least age at which an environment may be evicted. It is longer than the time from the end of
// a build to the start of the program that uses it.
const restAge = 10 * time.Minute

// evict removes the environments that were unused for the longest time, until the rest has no more than most
// bytes. It does not remove the environment that keep names, nor environments that are in use or were used a
// short time ago. It returns the names of the removed ones.
func (s store) evict(keep string, most int64, now time.Time) (gone []string, err error) {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return nil, err
	}
	type kept struct {
		name string
		mark
		used time.Time
	}
	var all []kept
	var sum int64
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), ".lock")
		info, err := e.Info()
		if !is || err != nil {
			continue
		}
		m, _ := s.mark(name) // without a mark, it is a build or the rest of one
		sum += m.Bytes
		all = append(all, kept{name, m, info.ModTime()})
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) < 0
	})
	for _, k := range all {
		rest := k.Bytes == 0
		if k.name == keep || sum <= most && !rest {
			continue
		}
		ok, err := s.remove(k.name, now)
		if err != nil {
			return gone, err
		}
		if ok {
			sum -= k.Bytes
			gone = append(gone, k.name)
		}
	}
	return gone, nil
}

// remove removes an environment that is not in use and was not used a short time ago. It removes the lock
// last, so that a waiting builder finds either everything or nothing.
func (s store) remove(name string, now time.Time) (bool, error) {
	f, err := os.OpenFile(s.lock(name), os.O_RDWR, 0)
	if err != nil {
		return false, nil // another attempt was faster
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !s.current(f) {
		return false, nil
	}
	if info, err := f.Stat(); err != nil || now.Sub(info.ModTime()) < restAge {
		return false, nil
	}
	for _, path := range []string{s.done(name), s.env(name), s.lock(name)} { // the mark goes first
		if err := os.RemoveAll(path); err != nil {
			return false, fmt.Errorf("evict an environment: %w", err)
		}
	}
	return true, nil
}
