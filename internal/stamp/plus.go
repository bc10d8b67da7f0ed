package stamp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// plusName is the program with the sources of brokers. It is next to the program of the node.
const plusName = "skein-plus"

// ErrNoPlus says that skein-plus is not there.
var ErrNoPlus = errors.New("the program " + plusName + " is not next to this program")

// Plus returns the path of skein-plus.
func Plus() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	path := filepath.Join(filepath.Dir(self), plusName)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w: put the program into %s; each release contains it, and make build builds it", ErrNoPlus, filepath.Dir(self))
	}
	return path, nil
}

// versionMax bounds the question for a version.
const versionMax = 10 * time.Second

// PlusVersion returns the version of skein-plus. It returns ErrNoPlus if there is none, and another error if
// it does not suit this program.
func PlusVersion(ctx context.Context) (string, error) {
	path, err := Plus()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionMax)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s does not print its version: %w", path, err)
	}
	is := strings.TrimSpace(string(out))
	return is, Suits(is)
}

// Suits returns an error if skein-plus of a version does not suit this program.
func Suits(plus string) error {
	if own := Build(); plus != own {
		return fmt.Errorf("%s %.60q is next to skein %s: install both programs of one release", plusName, plus, own)
	}
	return nil
}
