package stamp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// plusName is the program with the sources of brokers. It is next to the program of the node.
const plusName = "skein-plus"

// ErrNoPlus says that skein-plus is not there.
var ErrNoPlus = errors.New("the program " + plusName + " is not next to this program")

// PlusCommand is the command by which a program that is built with the tag plus runs a client of a broker.
const PlusCommand = "plus"

// Plus returns the command that runs a client of a broker: skein-plus, or this program if it has the clients.
func Plus() (argv []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if Inside && runtime.GOOS == "linux" { // also if an upgrade has replaced the file of this program
		return []string{"/proc/self/exe", PlusCommand}, nil
	} else if Inside {
		return []string{self, PlusCommand}, nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	path := filepath.Join(filepath.Dir(self), plusName)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: put the program into %s; each release contains it, and make build builds it", ErrNoPlus, filepath.Dir(self))
	}
	return []string{path}, nil
}

// versionMax bounds the question for a version.
const versionMax = 10 * time.Second

// PlusVersion returns the version of skein-plus. It returns ErrNoPlus if there is none, and another error if
// it does not suit this program.
func PlusVersion(ctx context.Context) (string, error) {
	argv, err := Plus()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, versionMax)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], append(argv[1:], "version")...).Output()
	if err != nil {
		return "", fmt.Errorf("%s does not print its version: %w", strings.Join(argv, " "), err)
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
