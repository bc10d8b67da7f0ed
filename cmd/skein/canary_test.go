//go:build linux

package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// canaries are secret values that must not be found outside of the attempts that use them.
type canaries struct {
	t      *testing.T
	values []string
	forms  [][]byte
}

// newCanaries makes unguessable values. A value ends with characters that a URL escapes. The part
// before them is the same in plain text, in a URL, in JSON and in quotes, so a search for it finds all these.
func newCanaries(t *testing.T, n int) *canaries {
	c := &canaries{t: t}
	for range n {
		core := rand.Text()
		c.values = append(c.values, core+"/+ =&")
		c.forms = append(c.forms, []byte(core), []byte(hex.EncodeToString([]byte(core)))) // PostgreSQL shows bytes as hex
		for shift := range 3 {                                                            // the value may begin anywhere in a longer text
			text := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + core))
			c.forms = append(c.forms, []byte(text[2*shift:len(text)-4])) // letters and digits encode to these in each alphabet
		}
	}
	return c
}

func (c *canaries) in(text []byte) bool {
	return slices.ContainsFunc(c.forms, func(form []byte) bool { return bytes.Contains(text, form) })
}

// notIn fails if a text contains a canary, or if there is no text.
func (c *canaries) notIn(where string, text []byte) {
	c.t.Helper()
	if len(text) == 0 {
		c.t.Errorf("%s is empty, so the search proves nothing", where)
	}
	for _, form := range c.forms {
		if at := bytes.Index(text, form); at >= 0 {
			c.t.Errorf("%s contains a canary: %q", where, text[max(0, at-200):min(len(text), at+200)])
			return
		}
	}
}

// notStored searches the rows of all tables, a dump of the database if there is the program for it, and the
// log of PostgreSQL.
func (c *canaries) notStored(f *flight) {
	c.t.Helper()
	rows, err := f.query(`select table_schema, table_name, query_to_xml(format('select t::text from %I.%I t', table_schema, table_name), true, false, '')
		from information_schema.tables where table_schema = 'skein'`)
	if err != nil || !strings.Contains(rows, "succeeded") && !strings.Contains(rows, "running") {
		c.t.Errorf("the rows: %v", err)
	}
	c.notIn("a row", []byte(rows))
	c.notIn("the log of PostgreSQL", []byte(f.pg.Log()))
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
	if len(found) == 0 {
		return
	}
	slices.Sort(found) // an earlier pg_dump refuses a later server
	dump, err := exec.CommandContext(c.t.Context(), found[len(found)-1], "--inserts", f.near()).Output()
	if err != nil {
		c.t.Errorf("pg_dump: %v", err)
	}
	c.notIn("the dump", dump)
}

// holders returns the files of a folder that contain a canary.
func (c *canaries) holders(folder string) (paths []string) {
	c.t.Helper()
	files := 0
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // removed in the meantime, or a socket
		}
		if content, err := os.ReadFile(path); err == nil {
			files++
			if c.in(content) {
				paths = append(paths, path)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		c.t.Errorf("%s: %d files, %v", folder, files, err)
	}
	return paths
}

// notShown searches the arguments and the environment of all processes. Only the environment of the attempt's
// process and of its children may contain a canary. notShown reports whether one of them does. The parameter
// searched lists processes that must be among the readable ones.
func (c *canaries) notShown(attempt int, searched ...int) (used bool) {
	c.t.Helper()
	read := map[int]bool{}
	for _, name := range entries("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + name + "/environ")
		line, lineErr := os.ReadFile("/proc/" + name + "/cmdline")
		read[pid] = err == nil && lineErr == nil && len(env) > 0 && len(line) > 0
		switch {
		case c.in(line):
			c.t.Errorf("the arguments of %d contain a canary: %q", pid, line)
		case !c.in(env):
		case attempt != 0 && descends(pid, attempt):
			used = true
		default:
			c.t.Errorf("the environment of %d contains a canary: %q, %q", pid, line, env)
		}
	}
	for _, pid := range searched {
		if !read[pid] {
			c.t.Errorf("process %d was not searched", pid)
		}
	}
	return used
}

// descends reports whether a process is another one or one of its descendants.
func descends(pid, from int) bool {
	for pid > 1 && pid != from {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		var state string
		if n, _ := fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &pid); n != 2 {
			return false
		}
	}
	return pid == from
}
