package blobtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/blob"
)

// Folder keeps objects as files of one folder, so that several processes of a test share them.
type Folder struct{ Path string }

var _ blob.Store = Folder{}

// partMark begins the names of files that are being written.
const partMark = ".part-"

// Name implements blob.Store.
func (f Folder) Name() string { return f.Path }

func (f Folder) path(key string) string { return filepath.Join(f.Path, url.PathEscape(key)) }

// Put implements blob.Store.
func (f Folder) Put(_ context.Context, key string, content io.ReaderAt, size int64, o blob.PutOptions) error {
	if len(key) > blob.KeyMax {
		return blob.ErrKey
	}
	part := filepath.Join(f.Path, partMark+rand.Text())
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(part)
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, sum), io.NewSectionReader(content, 0, size))
	err = errors.Join(err, file.Close())
	switch {
	case err != nil:
		return err
	case n != size, o.SHA256 != "" && o.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return blob.ErrCorrupt
	case !o.IfAbsent:
		return os.Rename(part, f.path(key))
	}
	if err := os.Link(part, f.path(key)); errors.Is(err, fs.ErrExist) {
		return blob.ErrExists
	} else if err != nil {
		return err
	}
	return nil
}

// limited is a part of a file.
type limited struct {
	io.Reader
	io.Closer
}

// Open implements blob.Store.
func (f Folder) Open(_ context.Context, key string, offset, n int64) (io.ReadCloser, error) {
	file, err := os.Open(f.path(key))
	if err != nil {
		return nil, err
	}
	if n < 0 {
		n = 1 << 62
	}
	return limited{io.NewSectionReader(file, offset, n), file}, nil
}

// List implements blob.Store.
func (f Folder) List(_ context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, err
	}
	var all []blob.Info
	for _, e := range entries {
		key, err := url.PathUnescape(e.Name())
		if err != nil || strings.HasPrefix(e.Name(), partMark) || !strings.HasPrefix(key, prefix) || key <= after {
			continue
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, blob.Info{Key: key, Size: info.Size(), Modified: info.ModTime()})
	}
	slices.SortFunc(all, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return all[:min(len(all), limit)], nil
}

// Delete implements blob.Store.
func (f Folder) Delete(_ context.Context, keys ...string) error {
	for _, key := range keys {
		if err := os.Remove(f.path(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Abort implements blob.Store.
func (f Folder) Abort(_ context.Context, _ string, before time.Time) error {
	parts, err := filepath.Glob(filepath.Join(f.Path, partMark+"*"))
	for _, part := range parts {
		if info, err := os.Stat(part); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(part)
		}
	}
	return err
}
