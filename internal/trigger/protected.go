package trigger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"skein.dev/skein/internal/protect"
)

// errMoved means that a folder was replaced between its opening and the check of its path.
var errMoved = errors.New("it was replaced while it was opened")

// Watchable returns an error if a folder is a protected path of the node, or is below one. See protect.Holds.
func Watchable(folder string, protected []string) error {
	if protect.Holds(folder, protected) {
		return fmt.Errorf("%s is a folder with files of a node, which no trigger may watch; watch another folder", folder)
	}
	return nil
}

// openFolder opens a folder that may be watched. It also returns the protected files and folders directly in
// it.
func openFolder(folder string, protected []string) (dir *os.File, inside map[string]bool, err error) {
	if dir, err = os.Open(folder); err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	real := protect.Real(folder)
	var opened, found fs.FileInfo
	if opened, err = dir.Stat(); err == nil {
		found, err = os.Lstat(real)
	}
	if err == nil && !os.SameFile(opened, found) { // the opened folder is not the checked one
		err = errMoved
	}
	if err == nil {
		err = Watchable(real, protected)
	}
	if err != nil {
		return nil, nil, err
	}
	inside = map[string]bool{}
	for _, p := range protected {
		if at := protect.Real(p); p != "" && filepath.Dir(at) == real {
			inside[filepath.Base(at)] = true
		}
	}
	return dir, inside, nil
}
