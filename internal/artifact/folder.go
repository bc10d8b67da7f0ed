package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
)

// Folder keeps artifacts in files:
//
//	<path>/artifacts/<namespace>/<workflow>/<run>/<task>.<attempt>/index.json
//	<path>/artifacts/<namespace>/<workflow>/<run>/<task>.<attempt>/files/<name>
//
// The folder belongs to one node, or all nodes share it.
type Folder struct{ Path string }

var _ Store = Folder{}

const (
	indexName = "index.json"
	filesName = "files"
	tempMark  = ".new-" // the prefix of a file that is being written, or whose writer has died
	// indexMax bounds the list of one attempt, in bytes.
	indexMax = 16 << 20
)

// index is the list of an attempt.
type index struct {
	Items []Info `json:"items"`
}

func (f Folder) run(r Run) (string, error) {
	at, err := r.Path()
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path, "artifacts", filepath.FromSlash(at)), nil
}

func (f Folder) attempt(ref Ref) (string, error) {
	at, err := ref.Path()
	if err != nil {
		return "", err
	}
	return filepath.Join(f.Path, "artifacts", filepath.FromSlash(at)), nil
}

// Begin implements Store.
func (f Folder) Begin(_ context.Context, ref Ref) (Deposit, error) {
	at, err := f.attempt(ref)
	if err != nil {
		return nil, err
	}
	temp := filepath.Join(filepath.Dir(at), tempMark+filepath.Base(at)+"-"+rand.Text()[:8])
	err = os.MkdirAll(filepath.Join(temp, filesName), 0o700)
	// a concurrent Forget for another attempt has removed the run's folder
	for try := 0; errors.Is(err, fs.ErrNotExist) && try < forgets; try++ {
		err = os.MkdirAll(filepath.Join(temp, filesName), 0o700)
	}
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Join(temp, filesName))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	return &folderDeposit{at: at, temp: temp, root: root}, nil
}

// forgets bounds how often Begin makes the run's folder again.
const forgets = 10

// Forget deletes the artifacts of one attempt. If the folder of the run is empty then, it deletes the folder,
// too. Artifacts that do not exist are no error.
func (f Folder) Forget(ref Ref) error {
	at, err := f.attempt(ref)
	if err == nil {
		err = os.RemoveAll(at)
	}
	if err == nil {
		_ = os.Remove(filepath.Dir(at)) // the removal fails if the folder has other files, which is usual
	}
	return err
}

// folderDeposit writes into a temporary folder next to the final one, and renames it at the commit.
type folderDeposit struct {
	at, temp string
	root     *os.Root // <temp>/files
	items    []Info
	folders  map[string]bool // made below files
	over     bool
}

// Add implements Deposit.
func (d *folderDeposit) Add(name string, content io.Reader) (Info, error) {
	if dir := path.Dir(name); dir != "." && !d.folders[dir] {
		if err := d.root.MkdirAll(dir, 0o700); err != nil {
			return Info{}, err
		}
		if d.folders == nil {
			d.folders = map[string]bool{}
		}
		for ; dir != "."; dir = path.Dir(dir) {
			d.folders[dir] = true
		}
	}
	file, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Info{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, sum), content)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return Info{}, err
	}
	info := Info{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	d.items = append(d.items, info)
	return info, nil
}

// Commit implements Deposit.
func (d *folderDeposit) Commit() error {
	sort.Slice(d.items, func(i, j int) bool { return d.items[i].Name < d.items[j].Name })
	text, err := json.Marshal(index{Items: d.items})
	if err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(d.temp, indexName), text); err != nil {
		return err
	}
	for dir := range d.folders {
		if err := syncDir(filepath.Join(d.temp, filesName, filepath.FromSlash(dir))); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(filepath.Join(d.temp, filesName)), syncDir(d.temp)); err != nil {
		return err
	}
	if err := os.Rename(d.temp, d.at); errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, fs.ErrExist) {
		if err := d.again(); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	d.over = true
	return errors.Join(d.root.Close(), syncDir(filepath.Dir(d.at)))
}

// again returns the result of Commit for an attempt whose final folder exists. Committed files are never
// replaced. The index is written before the rename, so a final folder without an index was never visible to a
// reader.
func (d *folderDeposit) again() error {
	kept, err := readIndex(d.at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = os.RemoveAll(d.at); err == nil {
			err = os.Rename(d.temp, d.at)
		}
		return err
	case err != nil:
		return err
	case !slices.Equal(kept, d.items):
		return ErrFinal
	}
	return ErrKept
}

// Discard implements Deposit.
func (d *folderDeposit) Discard() {
	if !d.over {
		d.over = true
		_ = d.root.Close()
		_ = os.RemoveAll(d.temp) // the rest is removed with the run
	}
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// List implements Store.
func (f Folder) List(_ context.Context, ref Ref) ([]Info, error) {
	at, err := f.attempt(ref)
	if err != nil {
		return nil, err
	}
	return readIndex(at)
}

func readIndex(at string) ([]Info, error) {
	file, err := os.Open(filepath.Join(at, indexName))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list index
	if err := json.NewDecoder(io.LimitReader(file, indexMax)).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(at, indexName), err)
	}
	return list.Items, nil
}

// Open implements Store.
func (f Folder) Open(ctx context.Context, ref Ref, name string) (Reader, Info, error) {
	list, err := f.List(ctx, ref)
	if err != nil {
		return nil, Info{}, err
	}
	i := slices.IndexFunc(list, func(in Info) bool { return in.Name == name })
	if i < 0 {
		return nil, Info{}, fmt.Errorf("artifact %s: %w", name, fs.ErrNotExist)
	}
	at, err := f.attempt(ref)
	if err != nil {
		return nil, Info{}, err
	}
	root, err := os.OpenRoot(filepath.Join(at, filesName))
	if err != nil {
		return nil, Info{}, err
	}
	defer root.Close()
	file, err := root.Open(name)
	if err != nil {
		return nil, Info{}, err
	}
	return file, list[i], nil
}

// Used implements Store. Files that are still being written do not count.
func (f Folder) Used(_ context.Context, run Run) (Usage, error) {
	var u Usage
	at, err := f.run(run)
	if err != nil {
		return u, err
	}
	entries, err := os.ReadDir(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		list, err := readIndex(filepath.Join(at, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
		for _, in := range list {
			u.Files, u.Bytes = u.Files+1, u.Bytes+in.Size
		}
	}
	return u, nil
}

// Delete implements Store.
func (f Folder) Delete(ctx context.Context, runs []Run) error {
	var errs []error
	for _, r := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		at, err := f.run(r)
		if err == nil {
			err = os.RemoveAll(at)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
