package extension

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// filesMax bounds the files of an extension, because each is checked.
const filesMax = 10_000

// linksMax bounds the symbolic links on the way to a file.
const linksMax = 40

// guard checks that only root and the user of this process can change what an extension runs, also after the
// check. So it also checks all folders and links on the way to each file. A user who may write one of them
// could replace the checked file.
type guard struct {
	folder string          // folder of the extension, for error messages
	seen   map[string]bool // checked files and folders, without links in their paths
	files  int
}

// tree checks a file, and all files below a folder. It follows links.
func (g *guard) tree(path string) error {
	real, err := g.way(path)
	if err != nil || real == "" {
		return err
	}
	return filepath.WalkDir(real, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if g.files++; g.files > filesMax {
			return fmt.Errorf("%s has more than %d files: leave out what the extension does not need", g.folder, filesMax)
		}
		if g.seen["tree "+at] { // a link leads to a file or folder that was already checked
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		g.seen["tree "+at] = true
		if entry.Type()&fs.ModeSymlink != 0 {
			return g.tree(at)
		}
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		return owned(at, info, false)
	})
}

// way checks a file, and the folders and links on the way to it. It returns the path without links. It
// returns "" if the file does not exist, and only root and this user can create it.
func (g *guard) way(path string) (real string, err error) {
	at, links := "/", 0
	left := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	shared := false // at is a folder in which others may make files
	if info, err := os.Lstat(at); err != nil {
		return "", err
	} else if _, known := ownerOf(info); !known { // nodes do not run on systems without numeric users
		return path, nil
	}
	for len(left) > 0 {
		name := left[0]
		left = left[1:]
		if name == "" || name == "." {
			continue
		}
		if name == ".." { // this part comes from the target of a link
			at = filepath.Dir(at)
			info, err := os.Lstat(at)
			if err != nil {
				return "", err
			}
			shared = info.Mode().Perm()&0o022 != 0
			continue
		}
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) && !shared {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !g.seen[next] {
				if err := owned(next, info, len(left) > 0); err != nil {
					return "", err
				}
				g.seen[next] = true
			}
			at, shared = next, info.Mode().Perm()&0o022 != 0
			continue
		}
		if err := owned(next, info, true); err != nil {
			return "", err
		}
		if links++; links > linksMax {
			return "", fmt.Errorf("%s passes through more than %d symbolic links: make it a file or folder", path, linksMax)
		}
		to, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			at, shared = "/", false
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return at, nil
}

// owned returns an error if a user other than root and the user of this process owns a file or may change it.
// passed means that the file is a link or a folder on the way to another file. If such a folder has the
// sticky bit, others may create files in it, because they cannot replace files of other users there.
func owned(path string, info fs.FileInfo, passed bool) error {
	self, mode := os.Geteuid(), info.Mode()
	owner, known := ownerOf(info)
	switch {
	case !known:
		return nil
	case owner != 0 && owner != self:
		return fmt.Errorf("%s belongs to the user with the number %d: give it to root or to the user of Skein: chown -h %d %s", path, owner, self, path)
	case mode&fs.ModeSymlink != 0: // the mode of a link allows every user to write, but no user can change a link
		return nil
	case mode.Perm()&0o022 != 0 && !(passed && mode&fs.ModeSticky != 0):
		return fmt.Errorf("other users can write to %s: remove that right: chmod go-w %s", path, path)
	}
	return nil
}
