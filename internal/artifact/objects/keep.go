package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/blob"
)

const (
	// AwayMax is the time for which calls to a store that does not answer are repeated.
	AwayMax = 10 * time.Minute
	// depositMax bounds the age of a deposit at its commit. Sweep deletes the files of deposits that are much
	// older.
	depositMax = 12 * time.Hour
	// filesAtOnce bounds the number of files of one deposit that are written at the same time.
	filesAtOnce = 4
	// discardMax bounds the time for the deletion of a failed deposit.
	discardMax = 10 * time.Second
	// The pauses between two attempts.
	pauseMin = 200 * time.Millisecond
	pauseMax = 15 * time.Second
)

// ErrAway means that the store has not answered for AwayMax, or has refused the calls for as long.
var ErrAway = errors.New("the store of artifacts has not accepted the files")

// deposit writes the files of one attempt.
type deposit struct {
	s       *Store
	from    artifact.Folder
	ref     artifact.Ref
	place   string
	is      manifest
	awayMax time.Duration
	began   time.Time
	// stands is the manifest of the attempt. It is nil if it was not read.
	stands *manifest
}

// Keep copies the artifacts of an attempt from a folder, all of them or none. If the same files are already
// stored, it returns nil. If other files are stored, it returns artifact.ErrFinal. While the store does not
// answer, Keep repeats its calls for AwayMax since the last success.
func (s *Store) Keep(ctx context.Context, ref artifact.Ref, from artifact.Folder) error {
	return s.keep(ctx, ref, from, AwayMax)
}

func (s *Store) keep(ctx context.Context, ref artifact.Ref, from artifact.Folder, awayMax time.Duration) error {
	place, err := ref.Path()
	if err != nil {
		return err
	}
	d := &deposit{s: s, from: from, ref: ref, place: place, is: manifest{Deposit: rand.Text()}, awayMax: awayMax, began: time.Now()}
	if d.is.Items, err = from.List(ctx, ref); err != nil {
		return fmt.Errorf("artifacts cannot be read: %w", err)
	}
	err = d.insist(ctx, d.known)
	switch {
	case err == nil: // an earlier process has committed the files
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err = d.files(ctx); err != nil {
		d.discard(ctx)
		return err
	}
	err = d.commit(ctx)
	// After another error, the manifest may exist, so its files must stay.
	if errors.Is(err, errOther) || errors.Is(err, artifact.ErrFinal) {
		d.discard(ctx)
	}
	if errors.Is(err, errOther) {
		return nil
	}
	return err
}

// errOther means that another deposit of the attempt, with the same files, was committed.
var errOther = errors.New("the same files are kept already")

// known compares the committed files of the attempt with those of the deposit. It returns fs.ErrNotExist if
// none are committed.
func (d *deposit) known(ctx context.Context) error {
	is, err := d.s.read(ctx, d.place)
	if d.stands = is; err == nil && !slices.Equal(is.Items, d.is.Items) {
		err = artifact.ErrFinal
	}
	return err
}

// insist repeats a call until it succeeds, fails permanently, or the store was away for too long.
func (d *deposit) insist(ctx context.Context, call func(context.Context) error) error {
	for pause, since := pauseMin, time.Now(); ; pause = min(2*pause, pauseMax) {
		err := call(ctx)
		switch {
		case err == nil, blob.Final(err), errors.Is(err, fs.ErrNotExist), errors.Is(err, artifact.ErrFinal), errors.Is(err, errLocal):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Since(since)+pause > d.awayMax:
			return fmt.Errorf("%w in %v: %w", ErrAway, d.awayMax, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// errLocal means that a file cannot be read on this machine.
var errLocal = errors.New("an artifact cannot be read")

// files writes all files.
func (d *deposit) files(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan *artifact.Info)
	for range min(filesAtOnce, len(d.is.Items)) {
		wg.Go(func() {
			for in := range next {
				if err := d.file(ctx, in); err != nil {
					cancel(fmt.Errorf("%s: %w", in.Name, err))
				}
			}
		})
	}
	for i := range d.is.Items {
		select {
		case next <- &d.is.Items[i]:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (d *deposit) file(ctx context.Context, in *artifact.Info) error {
	file, _, err := d.from.Open(ctx, d.ref, in.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	defer file.Close()
	return d.insist(ctx, func(ctx context.Context) error {
		return d.s.blobs.Put(ctx, fileKey(d.place, d.is.Deposit, in.Name), file, in.Size, blob.PutOptions{SHA256: in.SHA256})
	})
}

// commit writes the manifest. If a manifest exists, it may be that of this deposit, after a call whose answer
// was lost.
func (d *deposit) commit(ctx context.Context) error {
	text, err := d.is.encode()
	if err != nil {
		return err
	}
	if time.Since(d.began) > depositMax {
		return fmt.Errorf("%w: writing them took more than %v", ErrAway, depositMax)
	}
	err = d.insist(ctx, func(ctx context.Context) error {
		return d.s.blobs.Put(ctx, root+d.place+"/"+manifestName, text, text.Size(), blob.PutOptions{IfAbsent: true})
	})
	if !errors.Is(err, blob.ErrExists) {
		return err
	}
	if err := d.insist(ctx, d.known); err != nil {
		return err
	}
	if d.stands.Deposit != d.is.Deposit {
		return errOther
	}
	return nil
}

// discard deletes the files of the deposit. Sweep later deletes those that discard could not delete.
func (d *deposit) discard(ctx context.Context) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardMax)
	defer cancel()
	_ = blob.Walk(within, d.s.blobs, root+d.place+"/"+filesName+d.is.Deposit+"/", func(page []blob.Info) error {
		keys := make([]string, len(page))
		for i := range page {
			keys[i] = page[i].Key
		}
		return d.s.blobs.Delete(within, keys...)
	})
}
