//go:build linux

package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownsDir returns an error if the folder belongs to another user than the attempt's. The worker writes inputs
// into the folder, and may have more rights than the attempt.
func (a *attempt) ownsDir(dir *os.Root) error {
	if a.uid == 0 || a.job.Dir == "" {
		return nil
	}
	info, err := dir.Stat(".")
	if err != nil {
		return inputError{err}
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != a.uid {
		return inputError{fmt.Errorf("inputs are put only into a folder of user %d of namespace %s, and %s belongs to another user: use no dir, or change its owner",
			a.uid, a.job.Key.Namespace, dir.Name())}
	}
	return nil
}

// put writes one file under another name and renames it, so that no task sees an incomplete file. A file with
// the same content is not replaced, because tasks may share the folder.
func (in *Input) put(root, from *os.Root, stop func() bool) error {
	name := filepath.FromSlash(in.Name)
	if !filepath.IsLocal(name) {
		return noInput(in, "its name leads outside")
	}
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return noInput(in, "%w", err)
	case !info.Mode().IsRegular():
		return noInput(in, "what exists under its name is not a regular file: remove it, or give the input another name")
	case info.Size() == in.Size:
		if sum, err := sumOf(root, name, stop); err == nil && sum == in.SHA256 {
			return nil
		}
	}
	if err := in.folders(root, filepath.Dir(name)); err != nil {
		return noInput(in, "%w", err)
	}
	source, err := from.OpenFile(filepath.FromSlash(in.File), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return noInput(in, "%w", err)
	}
	defer source.Close()
	temp := filepath.Join(filepath.Dir(name), ".skein-input-"+rand.Text()[:8])
	err = in.copy(root, temp, &stoppable{source, stop})
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
		return noInput(in, "%w", err)
	}
	return nil
}

// folders makes the missing folders of a file for the owner of the file.
func (in *Input) folders(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if in.owner == 0 {
		return root.MkdirAll(dir, 0o755)
	}
	if err := in.folders(root, filepath.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return giveFolder(root, dir, in.owner, in.group)
}

// giveFolder gives a folder that this process has just made to a user. If another task of the user has
// meanwhile replaced the folder by something else, that stays as it is.
func giveFolder(root *os.Root, dir string, uid, gid uint32) error {
	above, err := root.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer above.Close()
	fd, err := unix.Openat(int(above.Fd()), filepath.Base(dir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	made := os.NewFile(uintptr(fd), dir)
	defer made.Close()
	info, err := made.Stat()
	if err != nil {
		return err
	}
	if names, err := made.Readdirnames(1); len(names) > 0 || err != io.EOF || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return nil
	}
	return made.Chown(int(uid), int(gid))
}

// bring copies the inputs of the job into its working folder. It gives up when the attempt is stopped.
func (a *attempt) bring(dir string) error {
	w, job := a.w, a.job
	stop := func() bool { return a.want.Load() != 0 }
	if len(job.Given) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		if why := badDir(dir); why != nil {
			return why
		}
		return inputError{fmt.Errorf("the working directory cannot be written: %w", err)}
	}
	defer root.Close()
	if err := a.ownsDir(root); err != nil {
		return err
	}
	var from *os.Root
	defer func() {
		if from != nil {
			_ = from.Close()
		}
	}()
	for i := range job.Given {
		in := &job.Given[i]
		if i == 0 || in.At != job.Given[i-1].At {
			if from != nil {
				_ = from.Close()
			}
			if from, err = os.OpenRoot(in.At); err != nil {
				return noInput(in, "%w", err)
			}
		}
		in.owner, in.group = a.uid, a.gid
		if err := in.put(root, from, stop); err != nil {
			return err
		}
	}
	// A child of another attempt that is between its fork and its exec may still have the written file open.
	// Then the task could not execute the file. ForkLock is held from fork to exec, so taking it once is
	// enough to wait for such a child.
	syscall.ForkLock.RLock()
	syscall.ForkLock.RUnlock()
	if job.Fetched {
		if err := incomingOf(w.data).Forget(artifactsOf(&job.Key)); err != nil {
			w.cfg.Log.Warn("fetched files of an attempt cannot be removed", "code", "inputs_not_removed", "run", job.Key.RunID, "task", job.Key.Task, "err", err)
		}
	}
	return nil
}
