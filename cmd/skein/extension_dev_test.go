package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skein.dev/skein/internal/extension"
)

// TestReloadSparesDev: HUP ends skein dev, so reload must know it by its arguments.
func TestReloadSparesDev(t *testing.T) {
	for line, want := range map[string]bool{
		"bin/skein dev": true, "skein --data /srv dev --listen :0": true, "skein server --name dev": false, "skein worker --name dev": false, "sleep 60": false,
	} {
		if got := isDev([]byte(strings.ReplaceAll(line, " ", "\x00") + "\x00")); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestCheckOfPrograms: only for a file without the right to execute it, the remedy is chmod.
func TestCheckOfPrograms(t *testing.T) {
	folder := t.TempDir()
	manifest, program := filepath.Join(folder, extension.FileName), filepath.Join(folder, "program")
	text := "extension: 1\nname: mail\nversion: 1.0.0\nkinds: {mail: {run: [./program]}}\n"
	if err := errors.Join(os.WriteFile(manifest, []byte(text), 0o600), os.Mkdir(program, 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := checkExtension(folder); err == nil || strings.Contains(err.Error(), "chmod") {
		t.Errorf("the program is a folder: %v", err)
	}
	if err := errors.Join(os.Remove(program), os.WriteFile(program, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := checkExtension(folder); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("the program cannot be executed: %v", err)
	}
}
