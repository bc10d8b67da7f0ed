package objects

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/blob"
)

const (
	// UnfinishedMax is the age at which files without a manifest are deleted. It is longer than depositMax.
	UnfinishedMax = 24 * time.Hour
	// StrayMax is the age from which artifacts of a deleted run are deleted.
	StrayMax = 7 * 24 * time.Hour
	// pagesMax bounds the number of pages that one Sweep reads.
	pagesMax = 2
)

// sweeping is the position at which the next Sweep continues.
type sweeping struct {
	mu    sync.Mutex // held during a Sweep
	after string
}

// Sweep deletes objects that no reader can see: unfinished uploads, files of attempts without a manifest,
// files of deposits that were not committed, and artifacts of deleted runs. gone reports whether a run is
// deleted. Each call examines a part of the objects, and the next call continues there. Usually only one node
// sweeps at a time, but concurrent sweeps do no harm.
func (s *Store) Sweep(ctx context.Context, gone func(ctx context.Context, run string) (bool, error)) error {
	return s.sweep(ctx, time.Now(), gone)
}

func (s *Store) sweep(ctx context.Context, now time.Time, gone func(ctx context.Context, run string) (bool, error)) error {
	s.sweeping.mu.Lock()
	defer s.sweeping.mu.Unlock()
	if err := s.blobs.Abort(ctx, root, now.Add(-UnfinishedMax)); err != nil {
		return err
	}
	after, pages := s.sweeping.after, 0
	var of group
	var errs []error // errors of single attempts; all other attempts are still examined
	for {
		page, err := s.blobs.List(ctx, root, after, blob.PageMax)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i := range page {
			after = page[i].Key
			place, ok := placeOf(page[i].Key)
			if !ok {
				continue
			}
			if place != of.place {
				errs = append(errs, s.clean(ctx, &of, now, gone))
				of = group{place: place}
			}
			of.add(&page[i])
		}
		pages++
		switch {
		case len(page) < blob.PageMax:
			s.sweeping.after = ""
			return errors.Join(append(errs, s.clean(ctx, &of, now, gone))...)
		case pages >= pagesMax && of.count < blob.PageMax: // the next Sweep begins with this attempt
			s.sweeping.after = root + of.place
			return errors.Join(errs...)
		}
	}
}

// placeOf returns the path of the attempt to which a key belongs.
func placeOf(key string) (string, bool) {
	parts := strings.SplitN(strings.TrimPrefix(key, root), "/", placeSlashes+2)
	if len(parts) < placeSlashes+2 {
		return "", false
	}
	return strings.Join(parts[:placeSlashes+1], "/"), true
}

// group is the objects of one attempt.
type group struct {
	place    string
	newest   time.Time
	files    map[string][]string // keys, by deposit
	manifest bool
	count    int
}

func (g *group) add(is *blob.Info) {
	g.count++
	if is.Modified.After(g.newest) {
		g.newest = is.Modified
	}
	rest := strings.TrimPrefix(is.Key, root+g.place+"/")
	if rest == manifestName {
		g.manifest = true
		return
	}
	if file, ok := strings.CutPrefix(rest, filesName); ok {
		deposit, _, _ := strings.Cut(file, "/")
		if g.files == nil {
			g.files = map[string][]string{}
		}
		g.files[deposit] = append(g.files[deposit], is.Key)
	}
}

// clean deletes the objects of an attempt that no reader can see.
func (s *Store) clean(ctx context.Context, g *group, now time.Time, gone func(context.Context, string) (bool, error)) error {
	age := now.Sub(g.newest)
	if g.place == "" || age < UnfinishedMax {
		return nil
	}
	if age >= StrayMax {
		parts := strings.Split(g.place, "/")
		is, err := gone(ctx, parts[2])
		if err != nil {
			return err
		}
		if is {
			return s.Delete(ctx, []artifact.Run{{Namespace: parts[0], Workflow: parts[1], ID: parts[2]}})
		}
	}
	keep := ""
	if g.manifest && len(g.files) > 1 {
		m, err := s.read(ctx, g.place)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the manifest is being deleted
		}
		if err != nil {
			return err
		}
		keep = m.Deposit
	}
	for deposit, keys := range g.files {
		if g.manifest && len(g.files) == 1 || deposit == keep {
			continue
		}
		for len(keys) > 0 {
			n := min(len(keys), blob.PageMax)
			if err := s.blobs.Delete(ctx, keys[:n]...); err != nil {
				return err
			}
			keys = keys[n:]
		}
	}
	return nil
}
