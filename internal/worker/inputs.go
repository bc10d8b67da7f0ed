package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"skein.dev/skein/internal/artifact"
)

// Input is a file that is put into the working folder of an attempt before it starts.
type Input struct {
	artifact.Info        // the expected file
	Index         int    // index of the file, used only by the source
	At            string // folder of the file on this machine; "" if the file must be fetched
	File          string // name of the file in that folder
	owner         uint32 // user to whom the file is given; 0 is the worker's user
	group         uint32 // the group of owner
}

// InputSource provides the inputs of an attempt. The goroutine of the attempt calls it.
type InputSource interface {
	// List returns the files. The caller owns the list. Files that are not on this machine are read with
	// Read.
	List(ctx context.Context) ([]Input, error)
	// Read returns a piece of a file from an offset, with at least one byte. Its errors are those of
	// artifact.Insist.
	Read(ctx context.Context, in *Input, offset int64) ([]byte, error)
}

// incomingName is the folder in the data folder for fetched files that wait for the start.
const incomingName = "incoming"

// incoming returns a store for fetched files. It does not check the bounds of an attempt, which are checked
// elsewhere.
func incoming(data string) *artifact.Keeper {
	l := artifact.LimitsDefault
	l.RunBytes, l.RunFiles = math.MaxInt64, math.MaxInt
	return &artifact.Keeper{Store: artifact.Folder{Path: filepath.Join(data, incomingName)}, Limits: l}
}

func incomingOf(data string) artifact.Folder {
	return artifact.Folder{Path: filepath.Join(data, incomingName)}
}

func artifactsOf(k *Key) artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: k.Namespace, Workflow: k.Workflow, ID: k.RunID}, Task: k.Task, Attempt: k.Attempt}
}

// sweepIncoming removes the files that an earlier process fetched. It keeps those of the attempts that the
// keeper still holds.
func (l *Link) sweepIncoming(here []Held) {
	runs := map[string]bool{}
	for i := range here {
		runs[here[i].Key.RunID] = true
	}
	found, _ := filepath.Glob(filepath.Join(l.data, incomingName, "artifacts", "*", "*", "*")) // Glob fails only for a wrong pattern
	for _, at := range found {
		if !runs[filepath.Base(at)] {
			if err := os.RemoveAll(at); err != nil {
				l.log.Warn("fetched files of ended attempts cannot be removed", "code", "inputs_not_removed", "folder", at, "err", err)
			}
		}
	}
}

// fetch lists the inputs of an attempt, and fetches those that are not on this machine.
func (l *Link) fetch(ctx context.Context, job *Job) (list []Input, fetched bool, err error) {
	if err := artifact.Insist(ctx, func() (err error) { list, err = job.Inputs.List(ctx); return err }); err != nil {
		return nil, false, err
	}
	var want []artifact.Info
	var from []*Input
	for i := range list {
		if list[i].At == "" {
			want, from = append(want, list[i].Info), append(from, &list[i])
		}
	}
	if len(want) == 0 {
		return list, false, nil
	}
	ref := artifactsOf(&job.Key)
	at, err := incomingOf(l.data).Files(ref)
	if err == nil {
		err = l.incoming.Fetch(ctx, ref, want, func(ctx context.Context, i int, offset int64) ([]byte, error) {
			return job.Inputs.Read(ctx, from[i], offset)
		})
	}
	if err != nil {
		return nil, false, err
	}
	for _, in := range from {
		in.At, in.File = at, in.Name
	}
	return list, true, nil
}

// forget removes the fetched files of an attempt.
func (l *Link) forget(k *Key) {
	if err := incomingOf(l.data).Forget(artifactsOf(k)); err != nil {
		l.log.Warn("fetched files of an attempt cannot be removed", "code", "inputs_not_removed", "run", k.RunID, "task", k.Task, "err", err)
	}
}

// inputError is the reason why an attempt does not get its inputs.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

func noInput(in *Input, format string, args ...any) error {
	return inputError{fmt.Errorf("input %s: "+format, append([]any{in.Name}, args...)...)}
}

// errHalted means that the attempt was stopped before it had its inputs.
var errHalted = errors.New("the fetch was stopped")

// stoppable is a reader that ends when stop returns true.
type stoppable struct {
	r    io.Reader
	stop func() bool
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if s.stop() {
		return 0, errHalted
	}
	return s.r.Read(p)
}

func (in *Input) copy(root *os.Root, to string, source io.Reader) error {
	file, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if in.owner != 0 {
		if err := file.Chown(int(in.owner), int(in.group)); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), io.LimitReader(source, in.Size+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if size != in.Size || hex.EncodeToString(sum.Sum(nil)) != in.SHA256 {
		return fmt.Errorf("the stored file is damaged: %w", artifact.ErrCorrupt)
	}
	return nil
}

func sumOf(root *os.Root, name string, stop func() bool) (string, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &stoppable{file, stop}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
