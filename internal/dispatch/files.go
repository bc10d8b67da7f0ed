package dispatch

import (
	"context"
	"io/fs"
	"sync"

	"skein.dev/skein/internal/remote"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// filesOf returns a function that reads the files of a version when they are needed. The function caches
// small files.
func (r *Resolver) filesOf(id versionID) func() ([]worker.File, error) {
	var mu sync.Mutex
	var kept []worker.File
	return func() ([]worker.File, error) {
		mu.Lock()
		defer mu.Unlock()
		if kept != nil {
			return kept, nil
		}
		rows, err := r.cfg.Store.Files(context.Background(), store.FileQuery{Workflow: id.workflow, Version: id.version})
		if err != nil {
			return nil, err
		}
		files := make([]worker.File, len(rows))
		size := 0
		for i, f := range rows {
			files[i] = worker.File{Name: f.Name, Mode: fs.FileMode(f.Mode), Content: f.Data}
			size += len(f.Data)
		}
		if size <= filesKeptSize {
			kept = files
		}
		return files, nil
	}
}

// digestOf returns a function that returns the digest of files, which it reads once.
func digestOf(files func() ([]worker.File, error)) func() string {
	var mu sync.Mutex
	digest := ""
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		if digest == "" {
			if all, err := files(); err == nil {
				digest = remote.FilesDigest(all)
			}
		}
		return digest
	}
}
