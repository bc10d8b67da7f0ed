// Package objects keeps artifacts as objects of package blob, for all nodes.
//
//	artifacts/<namespace>/<workflow>/<run>/<task>.<attempt>/files/<deposit>/<name>
//	artifacts/<namespace>/<workflow>/<run>/<task>.<attempt>/manifest.json
//
// The manifest is written last, and only if there is none, so its write is the commit. It names the deposit
// whose files are the artifacts. Each deposit has its own name, so no writer overwrites the files of another.
// Files of other deposits are not visible, and Sweep deletes them.
//
// Files are deleted after their manifest. So a reader never sees a manifest without its files, except while
// their run is being deleted.
//
// Reading order: objects.go, keep.go, spool.go, sweep.go; deliver.go: the artifacts of a node's own attempts.
package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/lru"
)

const (
	root         = "artifacts/"
	manifestName = "manifest.json"
	filesName    = "files/"
	// manifestMax bounds the bytes of a manifest, so that one request writes it.
	manifestMax = blob.PartSize
	// manifestsMax and manifestsBytes bound the manifests in memory.
	manifestsMax   = 256
	manifestsBytes = 4 << 20
)

// manifest is the list of an attempt.
type manifest struct {
	Deposit string          `json:"deposit"`
	Items   []artifact.Info `json:"items"` // sorted by name
}

// find returns the file with a name.
func (m *manifest) find(name string) (artifact.Info, bool) {
	i, ok := slices.BinarySearchFunc(m.Items, name, func(in artifact.Info, name string) int { return strings.Compare(in.Name, name) })
	if !ok {
		return artifact.Info{}, false
	}
	return m.Items[i], true
}

// Store stores artifacts in objects. Together with a folder it implements artifact.Store: see Spool.
type Store struct {
	blobs blob.Store
	known *lru.Cache[string, *manifest] // name of an attempt → its manifest, which never changes

	sweeping sweeping
}

// New returns a Store of artifacts in a store of objects.
func New(blobs blob.Store) *Store {
	return &Store{blobs: blobs, known: lru.New[string, *manifest](manifestsMax, manifestsBytes)}
}

// Name returns the name of the store for people.
func (s *Store) Name() string { return s.blobs.Name() }

// manifest returns the manifest of an attempt, from memory if possible.
func (s *Store) manifest(ctx context.Context, ref artifact.Ref) (*manifest, error) {
	place, err := ref.Path()
	if err != nil {
		return nil, err
	}
	if m, ok := s.known.Get(place); ok {
		return m, nil
	}
	return s.read(ctx, place)
}

// read reads the manifest of an attempt, and caches it.
func (s *Store) read(ctx context.Context, place string) (*manifest, error) {
	r, err := s.blobs.Open(ctx, root+place+"/"+manifestName, 0, -1)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, manifestMax+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read the list of artifacts from %s: %w", s.Name(), err)
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("object %s of %s is not a list of artifacts: %w", root+place+"/"+manifestName, s.Name(), err)
	}
	s.known.Put(place, m, len(text))
	return m, nil
}

// List implements the method of artifact.Store.
func (s *Store) List(ctx context.Context, ref artifact.Ref) ([]artifact.Info, error) {
	m, err := s.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	return slices.Clone(m.Items), nil
}

// Open implements the method of artifact.Store. Only one goroutine may use the reader.
func (s *Store) Open(ctx context.Context, ref artifact.Ref, name string) (artifact.Reader, artifact.Info, error) {
	m, err := s.manifest(ctx, ref)
	if err != nil {
		return nil, artifact.Info{}, err
	}
	in, ok := m.find(name)
	if !ok {
		return nil, artifact.Info{}, fmt.Errorf("artifact %s: %w", name, fs.ErrNotExist)
	}
	place, err := ref.Path()
	if err != nil {
		return nil, in, err
	}
	r := &reader{ctx: ctx, blobs: s.blobs, key: fileKey(place, m.Deposit, name), size: in.Size}
	if in.Size > 0 { // makes an outage of the store known before the caller answers
		err = r.open(0)
	}
	return r, in, err
}

func fileKey(place, deposit, name string) string {
	return root + place + "/" + filesName + deposit + "/" + name
}

// Used implements the method of artifact.Store.
func (s *Store) Used(ctx context.Context, run artifact.Run) (u artifact.Usage, err error) {
	place, err := run.Path()
	if err != nil {
		return u, err
	}
	err = blob.Walk(ctx, s.blobs, root+place+"/", func(page []blob.Info) error {
		for i := range page {
			place, ok := manifestOf(page[i].Key)
			if !ok {
				continue
			}
			m, err := s.read(ctx, place)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			for _, in := range m.Items {
				u.Files, u.Bytes = u.Files+1, u.Bytes+in.Size
			}
		}
		return nil
	})
	return u, err
}

// placeSlashes is the number of slashes in the path of an attempt.
const placeSlashes = 3

// Delete implements the method of artifact.Store.
func (s *Store) Delete(ctx context.Context, runs []artifact.Run) error {
	var errs []error
	for _, r := range runs {
		place, err := r.Path()
		if err == nil {
			err = s.deleteRun(ctx, place)
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// deleteRun deletes all manifests of a run, and then all its files.
func (s *Store) deleteRun(ctx context.Context, place string) error {
	defer s.known.Clear()
	pages, rest := 0, []string{}
	err := blob.Walk(ctx, s.blobs, root+place+"/", func(page []blob.Info) error {
		pages++
		var manifests []string
		rest = rest[:0]
		for i := range page {
			if _, is := manifestOf(page[i].Key); is {
				manifests = append(manifests, page[i].Key)
			} else {
				rest = append(rest, page[i].Key)
			}
		}
		return s.blobs.Delete(ctx, manifests...)
	})
	if err != nil {
		return err
	}
	if pages == 1 {
		return s.blobs.Delete(ctx, rest...)
	}
	return blob.Walk(ctx, s.blobs, root+place+"/", func(page []blob.Info) error {
		keys := make([]string, len(page))
		for i := range page {
			keys[i] = page[i].Key
		}
		return s.blobs.Delete(ctx, keys...)
	})
}

// manifestOf returns the path of the attempt whose manifest has this key.
func manifestOf(key string) (string, bool) {
	place, is := strings.CutSuffix(strings.TrimPrefix(key, root), "/"+manifestName)
	return place, is && strings.Count(place, "/") == placeSlashes
}

// encode returns a manifest as JSON.
func (m *manifest) encode() (*bytes.Reader, error) {
	text, err := json.Marshal(m)
	if err == nil && len(text) > manifestMax {
		err = fmt.Errorf("the list of artifacts has %d bytes, more than %d: put the files into an archive", len(text), manifestMax)
	}
	return bytes.NewReader(text), err
}
