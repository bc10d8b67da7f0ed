package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"skein.dev/skein/internal/secret"
)

// ErrUnusable is a data folder that cannot be used. Its text names the folder, the reason and the remedy.
var ErrUnusable = errors.New("data folder")

// Prepare makes the data folder if it is missing and finds out whether it can be used.
func Prepare(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w %s cannot be made: %w; choose another data folder with --data DIR", ErrUnusable, dir, Reason(err))
		}
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w %s: a part of that path is not a folder; choose another data folder with --data DIR", ErrUnusable, dir)
	case err != nil:
		return fmt.Errorf("%w %s: %w; choose another data folder with --data DIR", ErrUnusable, dir, Reason(err))
	case !info.IsDir():
		return fmt.Errorf("%w %s is a file, not a folder; choose another data folder with --data DIR", ErrUnusable, dir)
	default: // a user who can write into it could plant secrets, or replace the database
		if err := secret.Closed(info, dir); err != nil {
			return fmt.Errorf("%w: %w; or choose another data folder with --data DIR, such as a new folder in it", ErrUnusable, err)
		}
	}
	if err := writable(dir); err != nil {
		return fmt.Errorf("%w %s is not writable for this user (%w); run `chmod u+rwx %s` or choose another data folder with --data DIR",
			ErrUnusable, dir, err, dir)
	}
	return nil
}

// Reason returns the cause of a file's error without the path, for a sentence that names the path itself.
func Reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
