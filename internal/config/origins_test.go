package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConfigOrigins(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("SKEIN_SLOTS", "7")
	t.Setenv("SKEIN_DRAIN", "5s")
	path := filepath.Join(dir, "skein", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("slots: 3\nname: box\npass_env: [A, B]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(map[string]string{"drain": "9s", "output": "json"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.Drain != 9*time.Second || c.Slots != 7 || c.Name != "box" || len(c.PassEnv) != 2 || c.Data != filepath.Join(dir, "skein") || c.ListenChosen {
		t.Errorf("%+v", c)
	}
	origins := map[string]string{}
	for _, v := range c.Values {
		origins[v.Name] = v.Origin
	}
	for name, want := range map[string]string{"drain": "flag --drain", "slots": "environment SKEIN_SLOTS", "name": "file " + path, "listen": "default"} {
		if origins[name] != want {
			t.Errorf("%s comes from %q, want %q", name, origins[name], want)
		}
	}
	for file, says := range map[string]string{"slotz: 3\n": "slotz", "slots: [": "config.yaml", "drain: soon\n": "drain"} {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("SKEIN_DRAIN", "")
		if _, err := Load(nil, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gave %v", file, err)
		}
	}
	if _, err := Load(nil, filepath.Join(dir, "nowhere.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a chosen file that is not there: %v", err)
	}
}

func TestRetentionSettings(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	c, err := Load(map[string]string{"retention-age": "0", "retention-runs": "7"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if c.RetentionAge != 0 || c.RetentionRuns != 7 {
		t.Errorf("%v %d", c.RetentionAge, c.RetentionRuns)
	}
	if c, err = Load(nil, ""); err != nil {
		t.Fatal(err)
	}
	if c.RetentionAge != 90*24*time.Hour || c.RetentionRuns != 1000 {
		t.Errorf("%v %d", c.RetentionAge, c.RetentionRuns)
	}
	for name, v := range map[string]string{"retention-runs": "0", "retention-age": "-1d"} {
		if _, err := Load(map[string]string{name: v}, ""); err == nil {
			t.Error(fmt.Sprintf("%s %s was taken", name, v))
		}
	}
}
