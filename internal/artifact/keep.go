package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Limits limit the stored artifacts. All limits are positive.
type Limits struct {
	FileBytes    int64 // bound of one file
	RunBytes     int64 // bound of one run
	AttemptFiles int   // bound of one attempt
	RunFiles     int   // bound of one run
}

// LimitsDefault are the bounds of a node.
var LimitsDefault = Limits{FileBytes: 1 << 30, RunBytes: 4 << 30, AttemptFiles: 1000, RunFiles: 10_000}

// runsMax bounds the number of runs whose usage is remembered.
const runsMax = 1000

// Keeper copies the artifacts of attempts into a store. Each node counts the bytes and files of a run for
// itself: those that existed when the node first stored a file of the run, and those that it has stored
// since.
type Keeper struct {
	Store  Store
	Limits Limits

	mu   sync.Mutex
	used map[Run]*Usage
}

// WorkDir is the folder in which an attempt leaves its files.
type WorkDir struct {
	// Root is opened before the attempt begins. So a link that later replaces the folder has no effect.
	Root *os.Root
	// Path is the path of Root at the start, as PathOf returns it. If the folder is no longer at this path,
	// its files may not be the ones that the task means. "" means that this is not checked.
	Path string
	// Shut are absolute paths, without links, of files and folders that may not become artifacts.
	Shut []string
	// Owner is the user of the attempt. Files of other users cannot become artifacts, because the process
	// that reads the files has more rights than the attempt. nil permits files of all users.
	Owner *uint32
}

// Keep stores the files of a folder that the globs name. If they name no file, it stores an empty list,
// because a missing list would mean that the files are lost. It returns the size of the files. If stop
// returns true, Keep returns ErrStopped. Its errors are sentences for people.
func (k *Keeper) Keep(ref Ref, from WorkDir, globs []string, stop func() bool) (size int64, err error) {
	root := from.Root
	if err := from.moved(); err != nil {
		return 0, err
	}
	names, err := pick(root.FS(), globs)
	if err != nil {
		return 0, err
	}
	if len(names) > k.Limits.AttemptFiles {
		return 0, fmt.Errorf("%d files are artifacts of this attempt, at most %d can be: put them into an archive", len(names), k.Limits.AttemptFiles)
	}
	ctx := context.Background()
	d, err := k.Store.Begin(ctx, ref)
	if err != nil {
		return 0, fmt.Errorf("artifacts cannot be kept: %w", err)
	}
	t := taking{k: k, run: ref.Run, from: from, to: d, stop: stop}
	defer func() {
		if err != nil {
			d.Discard()
			k.give(ref.Run, t.taken)
		}
	}()
	for _, name := range names {
		if err := t.file(ctx, name); err != nil {
			return 0, err
		}
	}
	switch err := d.Commit(); {
	case errors.Is(err, ErrKept):
		d.Discard()
		k.give(ref.Run, t.taken) // the bytes were counted when the files were kept
	case err != nil:
		return 0, fmt.Errorf("artifacts cannot be kept: %w", err)
	}
	return t.taken.Bytes, nil
}

// ErrStopped means that artifacts were not stored because the attempt was stopped.
var ErrStopped = errors.New("stopped while its artifacts were being stored")

// taking stores the files of one attempt.
type taking struct {
	k     *Keeper
	run   Run
	from  WorkDir
	to    Deposit
	stop  func() bool
	taken Usage // the part of the run's bounds that is used
}

// file stores one file.
func (t *taking) file(ctx context.Context, name string) error {
	// the file may be a FIFO by now, whose open must not block
	file, err := t.from.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	size := info.Size()
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("artifact %s is not a regular file", name)
	case size > t.k.Limits.FileBytes:
		return fmt.Errorf("artifact %s is larger than %d bytes", name, t.k.Limits.FileBytes)
	}
	if err := t.from.allows(file); err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	if err := t.k.take(ctx, t.run, size); err != nil {
		return fmt.Errorf("artifact %s: %w", name, err)
	}
	t.taken.Files, t.taken.Bytes = t.taken.Files+1, t.taken.Bytes+size
	kept, err := t.to.Add(name, &stoppable{r: io.LimitReader(file, size+1), stop: t.stop})
	switch {
	case errors.Is(err, ErrStopped):
		return err
	case err != nil:
		return fmt.Errorf("artifact %s cannot be kept: %w", name, err)
	case kept.Size != size:
		return fmt.Errorf("artifact %s changed while it was copied: a process that outlived the task still writes to it", name)
	}
	return nil
}

// PathOf returns the present path of an open folder, without links, as the kernel has it.
func PathOf(root *os.Root) (string, error) {
	dir, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
}

// moved returns an error if the folder is no longer at its path. In this case the task has replaced or
// removed the folder, and the files that it wrote at the path would be lost without a message.
func (s WorkDir) moved() error {
	if s.Path == "" {
		return nil
	}
	switch now, err := PathOf(s.Root); {
	case err != nil:
		return fmt.Errorf("artifacts cannot be kept: find the working directory: %w", err)
	case now != s.Path:
		return fmt.Errorf("artifacts cannot be kept: the task moved or removed its working directory %s; "+
			"let it replace what is in the directory, not the directory", s.Path)
	}
	return nil
}

// allows checks that an open file belongs to the user of the attempt and is not in a shut folder. It gets the
// path of the file from the kernel, so links in the given path have no effect.
func (s WorkDir) allows(file *os.File) error {
	if s.Owner != nil {
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if !ownedBy(info, *s.Owner) {
			return errors.New("the file belongs to another user than the task: let the task write a copy")
		}
	}
	if len(s.Shut) == 0 {
		return nil
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
	if err != nil {
		return fmt.Errorf("the path of the open file cannot be read: %w", err)
	}
	for _, shut := range s.Shut {
		if at == shut || strings.HasPrefix(at, shut+"/") {
			return fmt.Errorf("%s belongs to the system or to Skein, and cannot be an artifact: write a copy to another folder", shut)
		}
	}
	return nil
}

// stoppable is a reader that ends when stop returns true.
type stoppable struct {
	r    io.Reader
	stop func() bool
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if s.stop() {
		return 0, ErrStopped
	}
	return s.r.Read(p)
}

// take counts one file against the limits of the run, if it is within them.
func (k *Keeper) take(ctx context.Context, run Run, size int64) error {
	k.mu.Lock()
	u := k.used[run]
	k.mu.Unlock()
	if u == nil {
		stored, err := k.Store.Used(ctx, run)
		if err != nil {
			return err
		}
		u = &stored
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.used[run]; known != nil {
		u = known
	} else {
		if k.used == nil || len(k.used) >= runsMax {
			k.used = map[Run]*Usage{}
		}
		k.used[run] = u
	}
	switch {
	case u.Bytes+size > k.Limits.RunBytes:
		return tooMuch("the artifacts of the run would be larger than %d bytes", k.Limits.RunBytes)
	case u.Files+1 > k.Limits.RunFiles:
		return tooMuch("the run would have more than %d artifacts", k.Limits.RunFiles)
	}
	u.Bytes, u.Files = u.Bytes+size, u.Files+1
	return nil
}

// give returns an unused part to the limits.
func (k *Keeper) give(run Run, taken Usage) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if u := k.used[run]; u != nil {
		u.Bytes, u.Files = max(0, u.Bytes-taken.Bytes), max(0, u.Files-taken.Files)
	}
}
