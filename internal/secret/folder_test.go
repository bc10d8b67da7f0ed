//go:build unix

package secret

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("hook", "general\n", 0o600)
	write("shop/hook", "of the shop\r\n", 0o600)
	write("open", "x", 0o644)
	write("empty", "\n", 0o600)
	write("large", strings.Repeat("x", sizeMax+1), 0o600)
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "outside")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	f := Folder{dir}
	for _, c := range []struct{ namespace, name, want, err string }{
		{"shop", "hook", "of the shop", ""},
		{"default", "hook", "general", ""},
		{"default", "none", "", "unknown secret"},
		{"default", "../hook", "", "not a secret name"},
		{"..", "hook", "", "not a secret name"},
		{"default", "open", "", "chmod 600"},
		{"default", "empty", "", "empty"},
		{"default", "large", "", "larger than"},
		{"default", "outside", "", "escapes"},
		{"default", "folder", "", "not a regular file"},
	} {
		got, err := f.Secret(t.Context(), c.namespace, c.name)
		switch {
		case c.err == "" && (err != nil || string(got) != c.want):
			t.Errorf("%s/%s: %q, %v, want %q", c.namespace, c.name, got, err, c.want)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s/%s: error %v, want one with %q", c.namespace, c.name, err, c.err)
		}
	}
	if _, err := (Folder{filepath.Join(dir, "gone")}).Secret(t.Context(), "a", "b"); !errors.Is(err, ErrUnknown) {
		t.Errorf("no folder: %v", err)
	}
}

// TestSecretsThatOthersPlant: a file in a folder that others can write into is not used as a secret.
func TestSecretsThatOthersPlant(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "shop/n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := Folder{dir}
	for _, open := range []string{"", "shop"} {
		at := filepath.Join(dir, open)
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Secret(t.Context(), "shop", "n"); !errors.Is(err, ErrOpen) || !strings.Contains(err.Error(), "chmod 755 "+at) {
			t.Errorf("%s of mode 777: %v", at, err)
		}
		if err := os.Chmod(at, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := f.Secret(t.Context(), "shop", "n"); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}
