package remote

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// filesName is the folder in the data folder for the files of versions.
const filesName = "files"

// cacheMax bounds the bytes of the cache. cachedMax bounds the files of one version in it: larger ones are
// fetched for each attempt.
const (
	cacheMax  = 256 << 20
	cachedMax = 64 << 20
)

// FilesDigest returns the digest of the files of a version.
func FilesDigest(files []worker.File) string {
	sum := sha256.New()
	number := func(n int) { _, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	for _, f := range files {
		number(len(f.Name))
		_, _ = sum.Write([]byte(f.Name))
		number(int(f.Mode))
		number(len(f.Content))
		_, _ = sum.Write(f.Content)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// noFiles is the digest of a version without files.
var noFiles = FilesDigest(nil)

// fileCache keeps the files of versions in a folder, by their digest. The files that were not used for the
// longest time are removed first. A file that was damaged counts as missing.
type fileCache struct {
	dir  string
	max  int64
	each int64

	mu   sync.Mutex               // protects following fields
	busy map[string]chan struct{} // closed when the fetch of a digest has ended
}

func newFileCache(dir string) *fileCache {
	return &fileCache{dir: dir, max: cacheMax, each: cachedMax, busy: map[string]chan struct{}{}}
}

// files returns the files of a digest from the cache, or else from fetch. Of several callers with one digest,
// one fetches and the others wait. If the digest is "", every caller fetches.
func (c *fileCache) files(digest string, fetch worker.FileSource) ([]worker.File, error) {
	if digest == noFiles {
		return nil, nil
	}
	if !isDigest(digest) {
		return fetch()
	}
	if files, ok := c.get(digest); ok {
		return files, nil
	}
	c.mu.Lock()
	wait := c.busy[digest]
	if wait == nil {
		c.busy[digest] = make(chan struct{})
	}
	c.mu.Unlock()
	if wait != nil {
		<-wait // a fetch has a limit
		if files, ok := c.get(digest); ok {
			return files, nil
		}
		return fetch() // the other fetch has failed, or its files are too large
	}
	defer func() {
		c.mu.Lock()
		close(c.busy[digest])
		delete(c.busy, digest)
		c.mu.Unlock()
	}()
	// Another fetch may have ended between the look above and the entry in busy.
	if files, ok := c.get(digest); ok {
		return files, nil
	}
	files, err := fetch()
	if err == nil && FilesDigest(files) == digest {
		c.put(digest, files)
	}
	return files, err
}

func isDigest(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size
}

// get returns files that are in the cache and undamaged.
func (c *fileCache) get(digest string) ([]worker.File, bool) {
	path := filepath.Join(c.dir, digest)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var in workerv1.FilesResponse
	if err = proto.Unmarshal(data, &in); err == nil {
		if files := filesOf(&in); FilesDigest(files) == digest {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // records the time of the last use
			return files, true
		}
	}
	_ = os.Remove(path)
	return nil, false
}

// put adds files to the cache. A failure costs only the next fetch.
func (c *fileCache) put(digest string, files []worker.File) {
	out := &workerv1.FilesResponse{}
	for _, f := range files {
		out.Files = append(out.Files, &workerv1.File{Name: f.Name, Mode: uint32(f.Mode), Data: f.Content})
	}
	data, err := proto.Marshal(out)
	if err != nil || int64(len(data)) > c.each || os.MkdirAll(c.dir, 0o700) != nil {
		return
	}
	c.evict(int64(len(data)))
	f, err := os.CreateTemp(c.dir, "new-")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, digest))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}

// evict makes room for a number of bytes.
func (c *fileCache) evict(need int64) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var all []fs.FileInfo
	total := need
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			all, total = append(all, info), total+info.Size()
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].ModTime().Before(all[j].ModTime()) })
	for _, info := range all {
		if total <= c.max {
			return
		}
		if os.Remove(filepath.Join(c.dir, info.Name())) == nil {
			total -= info.Size()
		}
	}
}
