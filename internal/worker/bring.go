//go:build linux

package worker

import (
	"fmt"
	"os"
	"syscall"
)

// bring copies the inputs of a job into its working folder. It gives up when stop returns true.
func (w *Worker) bring(dir string, job *Job, stop func() bool) error {
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
