package artifact

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sort"
	"time"

	"skein.dev/skein/internal/glob"
)

// Source names the artifacts that an attempt gets from another, successful attempt.
type Source struct {
	Ref  Ref
	Name string // name of the file, or a pattern
	At   func(name string) string
	None string // the reason why there is no file, for people; "" if there is a file
}

// Input is one file that an attempt gets: Info describes the stored file, and Name is its name in the working
// folder.
type Input struct {
	Ref Ref
	Info
	At string
}

// As returns the description of the file with its new name.
func (in *Input) As() Info { return Info{Name: in.At, Size: in.Size, SHA256: in.SHA256} }

// Bounds of the inputs of one attempt.
const (
	inputFilesMax = 1000
	inputBytesMax = 4 << 30
)

// Reasons why a file is not available now.
var (
	// ErrAway means that no node that answered has the file. A node that is down may have the file.
	ErrAway = errors.New("no listed node has the file")
	// ErrLater means that the node that could answer does not answer. The file itself may exist.
	ErrLater = errors.New("no node answers now")
)

// NoInputError means that an attempt cannot get one of its inputs. Its text is for people.
type NoInputError struct{ text string }

// Error implements error.
func (e *NoInputError) Error() string { return e.text }

// NoInput returns a NoInputError.
func NoInput(format string, args ...any) error { return &NoInputError{fmt.Sprintf(format, args...)} }

// Choose finds the files that an attempt gets, in the order of their names. list returns the artifacts of an
// attempt. A name without wildcards must exist. A pattern may match nothing. Two files cannot have the same
// name, and no file can have the name of another file's folder.
func Choose(sources []Source, list func(Ref) ([]Info, error)) ([]Input, error) {
	var all []Input
	known := map[Ref][]Info{}
	for _, s := range sources {
		wild := glob.Wild(s.Name)
		if s.None != "" && !wild {
			return nil, NoInput("there is no artifact %s of task %s: %s", s.Name, s.Ref.Task, s.None)
		} else if s.None != "" {
			continue
		}
		kept, ok := known[s.Ref]
		if !ok {
			var err error
			if kept, err = list(s.Ref); err != nil {
				return nil, err
			}
			known[s.Ref] = kept
		}
		before := len(all)
		for _, in := range kept {
			if in.Name == s.Name || wild && glob.Names(s.Name, in.Name) {
				all = append(all, Input{Ref: s.Ref, Info: in, At: s.At(in.Name)})
			}
		}
		if len(all) == before && !wild {
			return nil, NoInput("task %s has kept no artifact %s (attempt %d): name what it keeps, or a pattern such as %q", s.Ref.Task, s.Name, s.Ref.Attempt, pattern(s.Name))
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].At < all[j].At })
	all = slices.CompactFunc(all, func(a, b Input) bool { return a == b }) // several patterns may name one file
	return all, within(all)
}

// within checks that inputs, which are sorted, are within their bounds.
func within(all []Input) error {
	bytes, files := int64(0), make(map[string]bool, len(all))
	for i, in := range all {
		if i > 0 && in.At == all[i-1].At {
			return NoInput("%s of task %s and %s of task %s would both be %s: have them put into different folders", all[i-1].Name, all[i-1].Ref.Task, in.Name, in.Ref.Task, in.At)
		}
		files[in.At], bytes = true, bytes+in.Size
	}
	for _, in := range all {
		for dir := path.Dir(in.At); dir != "."; dir = path.Dir(dir) {
			if files[dir] {
				return NoInput("the inputs %s and %s need the same name for a file and a folder: have them put into different folders", dir, in.At)
			}
		}
	}
	switch {
	case len(all) > inputFilesMax:
		return NoInput("%d files are inputs of the task, at most %d can be: put them into an archive", len(all), inputFilesMax)
	case bytes > inputBytesMax:
		return NoInput("the inputs of the task are %d bytes, at most %d can be", bytes, int64(inputBytesMax))
	}
	return nil
}

const (
	// awayMax bounds the wait for a file that no node has.
	awayMax = 2 * time.Minute
	// The pauses between two attempts.
	againMin = 50 * time.Millisecond
	againMax = 2 * time.Second
)

// Insist calls try until it succeeds. It repeats the call after ErrLater until ctx ends, and after ErrAway
// for awayMax.
func Insist(ctx context.Context, try func() error) error {
	var since time.Time // the time since which the files are away
	for pause := againMin; ; pause = min(2*pause, againMax) {
		err := try()
		switch {
		case errors.Is(err, ErrLater):
			since = time.Time{}
		case !errors.Is(err, ErrAway) || !since.IsZero() && time.Since(since) >= awayMax:
			return err
		case since.IsZero():
			since = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// Fetch stores the files of another attempt as the files of one attempt, all of them or none. read returns a
// piece of a file. Fetch repeats read with Insist.
func (k *Keeper) Fetch(ctx context.Context, ref Ref, list []Info, read func(ctx context.Context, index int, offset int64) ([]byte, error)) error {
	in, err := k.Begin(ctx, ref)
	if err != nil {
		return err
	}
	defer in.Discard()
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		i, offset := in.Next()
		if i == len(list) {
			return in.Commit(list)
		}
		var data []byte
		if list[i].Size > 0 {
			err := Insist(ctx, func() (err error) { data, err = read(ctx, i, offset); return err })
			if err != nil {
				return fmt.Errorf("%s: %w", list[i].Name, err)
			}
			if len(data) == 0 {
				return fmt.Errorf("%s: %w", list[i].Name, ErrCorrupt)
			}
		}
		if err := in.Put(ctx, list[i], data); err != nil {
			return err
		}
	}
}

// Files returns the folder with the files that List returns for an attempt.
func (f Folder) Files(ref Ref) (string, error) {
	at, err := f.attempt(ref)
	return path.Join(at, filesName), err
}
