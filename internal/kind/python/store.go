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
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// store is the folder with the environments of a namespace. An environment NAME has a folder NAME, a file
// NAME.lock and, once it is complete, a file NAME.done with its size. A builder holds the lock alone, and an
// attempt that uses the environment shares it. The kernel releases a lock when its process ends, however it
// ends. So a folder without NAME.done and without a holder of the lock is the rest of a build that was
// killed.
//
// The time of the lock is that of the last use.
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

// lockEvery is the interval at which a waiting builder tries to get a lock.
const lockEvery = 100 * time.Millisecond

// hold locks an environment, alone or shared. It waits, and calls waits once before it does. The lock ends
// when the file is closed.
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

// current reports whether a lock is still that of its environment: eviction removes locks.
func (s store) current(f *os.File) bool {
	mine, err := f.Stat()
	now, err2 := os.Stat(f.Name())
	return err == nil && err2 == nil && os.SameFile(mine, now)
}

// ensure makes an environment complete: it calls build, unless the environment is there.
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

// use notes the use of a complete environment. It returns false if there is none, or if its lock is held
// alone.
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

// make builds an environment. The caller holds its lock alone.
func (s store) make(name string, build func(at string) error) error {
	at := s.env(name)
	if err := os.RemoveAll(at); err != nil {
		return fmt.Errorf("remove the rest of a build that was killed: %w", err)
	}
	if err := build(at); err != nil {
		return errors.Join(err, os.RemoveAll(at))
	}
	m, now := mark{Bytes: size(at)}, time.Now()
	if err := os.Chtimes(s.lock(name), now, now); err != nil { // a build may last longer than restAge
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

// size is the sum of the files of a folder, in bytes. Files that cannot be read do not count.
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

// restAge is the age at which an environment may be evicted. It is longer than the time from the end of a
// build to the begin of the program that uses it.
const restAge = 10 * time.Minute

// evict removes environments that were not used for the longest time until the others have at most most
// bytes. keep stays, and so do environments that are used now or were used a short time ago. It returns the
// names of the removed ones.
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
		m, _ := s.mark(name) // without a mark, it is the rest of a build or a build
		sum += m.Bytes
		all = append(all, kept{name, m, info.ModTime()})
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
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

// remove removes an environment that no process uses and none has used a short time ago. The lock goes last,
// so that a builder that waits for it finds either everything or nothing.
func (s store) remove(name string, now time.Time) (bool, error) {
	f, err := os.OpenFile(s.lock(name), os.O_RDWR, 0)
	if err != nil {
		return false, nil // another attempt has removed it
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !s.current(f) {
		return false, nil
	}
	if info, err := f.Stat(); err != nil || now.Sub(info.ModTime()) < restAge {
		return false, nil
	}
	for _, path := range []string{s.done(name), s.env(name), s.lock(name)} { // first the mark
		if err := os.RemoveAll(path); err != nil {
			return false, fmt.Errorf("evict an environment: %w", err)
		}
	}
	return true, nil
}
