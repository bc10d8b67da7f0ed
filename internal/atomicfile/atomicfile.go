// Package atomicfile writes files as a whole, so that they outlive a crash of the process or of the
// machine.
//
// A file is written under a temporary name in its own folder, and its bytes are forced to the disk. Then
// it gets its name in one step, and the folder is forced to the disk. So at any instant the name stands
// for the old file or for the new one, complete in both cases:
//
//   - A reader sees the old file or the new one.
//   - If the process or the machine stops before the call returns, the name stands for one of the two.
//   - After the call has returned without an error, the name stands for the new file, also after a power
//     failure.
//   - An error means that the name stands for the old file, or that only the folder could not be forced
//     to the disk: a power failure may then bring the old file back.
//
// A crash may leave the file of the temporary name, which has the mode of the new one or a narrower one.
// A later call for the same name removes it once nothing was written to it for an hour.
//
// [Write] and [Create] take the bytes. A [Draft] takes them one after the other, and can be made before they
// are known.
package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leftMin is the time since the last write after which a temporary file counts as left by a crash.
const leftMin = time.Hour

// Write replaces a file, or makes it. The new file has exactly the given mode, and belongs to the user of
// this process.
func Write(path string, data []byte, mode os.FileMode) error { return put(path, data, mode, os.Rename) }

// Create makes a file. It returns fs.ErrExist if the name is taken, also if another process took it
// meanwhile.
func Create(path string, data []byte, mode os.FileMode) error { return put(path, data, mode, os.Link) }

// put writes a complete temporary file, and gives it its final name with the function name.
func put(path string, data []byte, mode os.FileMode, name func(from, to string) error) error {
	d, err := Begin(path, mode)
	if err != nil {
		return err
	}
	defer d.Discard()
	if _, err := d.Write(data); err != nil {
		return err
	}
	return d.finish(name)
}

// nameMax bounds the part of a file's name that is in its temporary names: a file system bounds these, too.
const nameMax = 100

// prefix begins the temporary names of a file.
func prefix(path string) string {
	base := filepath.Base(path)
	return "." + base[:min(len(base), nameMax)] + ".new-"
}

// removeLeft removes temporary files that crashes have left. After an error, the next call tries again.
func removeLeft(path string) {
	dir, begin := filepath.Dir(path), prefix(path)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), begin) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftMin {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
