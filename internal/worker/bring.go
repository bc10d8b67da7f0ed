//go:build linux

package worker

import (
	"fmt"
	"os"
	"syscall"
)

// ownsDir returns an error if the folder belongs to another user than the attempt: the worker writes inputs
// into it, and may have more rights than the attempt.
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
		in.owner = a.uid
		if err := in.put(root, from, stop); err != nil {
			return err
		}
	}
	// A child of another attempt that is between fork and exec may hold a written file open, so the task
	// could not execute the file. ForkLock is held from fork to exec, so taking it once is enough.
	syscall.ForkLock.RLock()
	syscall.ForkLock.RUnlock()
	if job.Fetched {
		if err := incomingOf(w.data).Forget(artifactsOf(&job.Key)); err != nil {
			w.cfg.Log.Warn("fetched files of an attempt cannot be removed", "code", "inputs_not_removed", "run", job.Key.RunID, "task", job.Key.Task, "err", err)
		}
	}
	return nil
}
