package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/trigger"
)

// settleMax is the time without a change after which a file counts as an object, because a file that is still
// being written must not be an event. A test lowers settleMax.
var settleMax = 5 * time.Second

// Folder lists the files below a folder. It follows no links, because a link could expose any file of the
// machine to a user who may only write into the folder.
type Folder struct {
	Path string
	// Protected are files and folders of the node, which are not listed.
	Protected []string
	// Ordered ends a list before the first file that may still be written.
	Ordered bool
}

// Name implements Lister.
func (f *Folder) Name() string { return "file://" + f.Path }

// Each implements Lister.
func (f *Folder) Each(ctx context.Context, prefix, after string, see func([]blob.Info) error) error {
	if err := trigger.Watchable(f.Path, f.Protected); err != nil {
		return err
	}
	root, err := os.OpenRoot(f.Path)
	if err != nil {
		return fmt.Errorf("the folder cannot be read: %w", err)
	}
	defer root.Close()
	var all []blob.Info
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if name == "." {
				return err
			}
			return nil // the file may be gone by now
		case d.IsDir():
			return f.enter(name, prefix)
		case !d.Type().IsRegular() || strings.HasPrefix(path.Base(name), ".") || !strings.HasPrefix(name, prefix) || name <= after:
			return nil
		}
		if is, ok := f.file(name, d); ok {
			all = append(all, is)
		}
		if len(all) > objectsMax {
			return errObjects
		}
		return nil
	})
	if err != nil {
		return err
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Key < all[j].Key })
	young := func(is blob.Info) bool { return time.Since(is.Modified) < settleMax }
	if f.Ordered {
		if i := slices.IndexFunc(all, young); i >= 0 {
			all = all[:i]
		}
	} else {
		all = slices.DeleteFunc(all, young)
	}
	for page := range slices.Chunk(all, blob.PageMax) {
		if err := see(page); err != nil {
			return err
		}
	}
	return nil
}

// enter decides whether a folder is read.
func (f *Folder) enter(name, prefix string) error {
	if name == "." {
		return nil
	}
	inside := name + "/"
	if strings.HasPrefix(path.Base(name), ".") || !strings.HasPrefix(inside, prefix) && !strings.HasPrefix(prefix, inside) ||
		trigger.Watchable(filepath.Join(f.Path, name), f.Protected) != nil {
		return fs.SkipDir
	}
	return nil
}

func (f *Folder) file(name string, d fs.DirEntry) (blob.Info, bool) {
	info, err := d.Info()
	if err != nil || !info.Mode().IsRegular() || trigger.Watchable(filepath.Join(f.Path, name), f.Protected) != nil {
		return blob.Info{}, false
	}
	inode, arrived := trigger.Identity(info)
	sum := sumOf(fmt.Sprint(info.Size(), info.ModTime().UnixNano(), inode))
	return blob.Info{Key: name, Size: info.Size(), Modified: arrived.Time(), ETag: fmt.Sprintf("%x", sum[:8])}, true
}

// errObjects means that a place has too many objects.
var errObjects = errors.New("there are more than 100000 objects: set a narrower prefix, or ordered: true")
