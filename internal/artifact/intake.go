package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// nameMax bounds the name of a file, in bytes.
const nameMax = 4096

// BoundError means that something exceeds the limits. Its text is for people.
type BoundError struct{ text string }

// Error implements error.
func (e *BoundError) Error() string { return e.text }

func tooMuch(format string, args ...any) error { return &BoundError{fmt.Sprintf(format, args...)} }

// ErrCorrupt means that the received bytes do not match their announced size or digest.
var ErrCorrupt = errors.New("the content does not match its size and digest")

// Intake receives the files of one attempt from another machine, in pieces, one file after the other. After
// an error of a method other than Commit, only Discard may be called. Only one goroutine at a time may use an
// Intake.
type Intake struct {
	k     *Keeper
	ref   Ref
	to    Deposit
	taken Usage // the part of the run's bounds that is used
	whole []Info
	now   *coming // nil if no file has begun
}

// coming is a file of which a part has arrived.
type coming struct {
	said Info
	got  int64
	into *io.PipeWriter
	done chan added // cap 1
}

type added struct {
	info Info
	err  error
}

// Begin begins to receive the files of an attempt.
func (k *Keeper) Begin(ctx context.Context, ref Ref) (*Intake, error) {
	d, err := k.Store.Begin(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &Intake{k: k, ref: ref, to: d}, nil
}

// Next returns the next needed piece: the bytes from offset on of the file at index.
func (in *Intake) Next() (index int, offset int64) {
	if in.now != nil {
		offset = in.now.got
	}
	return len(in.whole), offset
}

// Put adds the next piece of a file. said describes the file.
func (in *Intake) Put(ctx context.Context, said Info, data []byte) error {
	if in.now == nil {
		if err := in.begin(ctx, said); err != nil {
			return err
		}
	}
	c := in.now
	if said != c.said || c.got+int64(len(data)) > said.Size {
		return fmt.Errorf("artifact %s: %w", said.Name, ErrCorrupt)
	}
	if _, err := c.into.Write(data); err != nil {
		return fmt.Errorf("artifact %s cannot be kept: %w", said.Name, err)
	}
	if c.got += int64(len(data)); c.got < said.Size {
		return nil
	}
	in.now = nil
	_ = c.into.Close()
	switch end := <-c.done; {
	case end.err != nil:
		return fmt.Errorf("artifact %s cannot be kept: %w", said.Name, end.err)
	case end.info != said:
		return fmt.Errorf("artifact %s: %w", said.Name, ErrCorrupt)
	}
	in.whole = append(in.whole, said)
	return nil
}

// begin begins a file.
func (in *Intake) begin(ctx context.Context, said Info) error {
	l := &in.k.Limits
	switch {
	case !fs.ValidPath(said.Name) || said.Name == "." || len(said.Name) > nameMax:
		return fmt.Errorf("artifact %.100q is not a path inside the working folder: %w", said.Name, ErrCorrupt)
	case said.Size < 0:
		return fmt.Errorf("artifact %s: %w", said.Name, ErrCorrupt)
	case said.Size > l.FileBytes:
		return tooMuch("artifact %s is larger than %d bytes", said.Name, l.FileBytes)
	case len(in.whole) >= l.AttemptFiles:
		return tooMuch("more than %d files are artifacts of this attempt: put them into an archive", l.AttemptFiles)
	}
	if err := in.k.take(ctx, in.ref.Run, said.Size); err != nil {
		return fmt.Errorf("artifact %s: %w", said.Name, err)
	}
	in.taken.Files, in.taken.Bytes = in.taken.Files+1, in.taken.Bytes+said.Size
	r, w := io.Pipe()
	c := &coming{said: said, into: w, done: make(chan added, 1)}
	go func() {
		info, err := in.to.Add(said.Name, r)
		_ = r.CloseWithError(err) // the writer gets the error
		c.done <- added{info, err}
	}()
	in.now = c
	return nil
}

// ErrIncomplete means that the received files are not the files of the list.
var ErrIncomplete = errors.New("the files that arrived are not the listed files")

// Commit stores the received files if they equal the files of the list.
func (in *Intake) Commit(list []Info) error {
	if in.now != nil || !slices.Equal(list, in.whole) {
		return ErrIncomplete
	}
	err := in.to.Commit()
	switch {
	case errors.Is(err, ErrKept):
		in.Discard() // the bytes were counted when the files were kept
		return nil
	case err == nil:
		in.taken = Usage{} // the used part of the bounds stays used
	}
	return err
}

// Discard deletes all files of the deposit, and gives their bytes back to the run's limit. After Commit, it
// does nothing.
func (in *Intake) Discard() {
	if in.now != nil {
		_ = in.now.into.CloseWithError(ErrStopped)
		<-in.now.done
		in.now = nil
	}
	in.to.Discard()
	in.k.give(in.ref.Run, in.taken)
	in.taken = Usage{}
}
