//go:build linux

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBundle: a bundle of one database makes the same definitions in another one, and equal definitions make
// equal bytes. Definitions that exist there stay unchanged, unless --replace is given. A damaged bundle
// changes nothing.
func TestBundle(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t), newWorld(t)
	ok := (*world).ok
	one.write("hello.sh", "echo from the bundle\n")
	file := one.write("hello.yaml", "name: hello\nfiles: [hello.sh]\nqueue: etl\ntasks: {a: {run: sh hello.sh, resources: big}}\n")
	alerts := one.write("alerts.yaml", "channels: {ops: {log: {}}}\n")
	for _, args := range [][]string{{"class", "set", "big", "--cpu", "1"}, {"queue", "set", "etl", "--limit", "5"}, {"connection", "set", "crm", "http", "--url", "https://crm.example.com"},
		{"alert", "apply", alerts}, {"workflow", "apply", file}} {
		ok(one, args...)
	}
	export := func(w *world, name string, more ...string) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		ok(w, append([]string{"bundle", "export", path}, more...)...)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	whole := export(one, "whole")
	if again := export(one, "again", "--namespace", "default"); !bytes.Equal(whole, again) {
		t.Error("two exports differ")
	}
	ok(two, "queue", "set", "other", "--limit", "1") // this call also makes the database
	ok(two, "queue", "delete", "other")
	path := two.write("the.bundle", string(whole))
	if out := ok(two, "bundle", "diff", path); strings.Count(out, "created") != 5 {
		t.Errorf("a diff with nothing: %s", out)
	}
	ok(two, "bundle", "apply", path)
	if out := ok(two, "bundle", "diff", path); strings.Count(out, "same") != 5 {
		t.Errorf("a diff after the apply: %s", out)
	}
	if there := export(two, "there"); !bytes.Equal(whole, there) {
		t.Error("the export of the other database differs")
	}
	ok(two, "run", "hello")
	if out := ok(two, "logs", "hello@latest/a"); !strings.Contains(out, "from the bundle") {
		t.Errorf("the run printed %s", out)
	}

	ok(two, "queue", "set", "etl", "--limit", "9")
	ok(one, "workflow", "apply", one.write("hello.yaml", "name: hello\nfiles: [hello.sh]\nqueue: etl\ntasks: {b: {run: sh hello.sh}}\n"))
	next := two.write("next.bundle", string(export(one, "next")))
	if out := ok(two, "bundle", "apply", next); !strings.Contains(out, "queue\tetl\tkept") || !strings.Contains(out, "workflow\tdefault/hello\tchanged") {
		t.Errorf("an apply over a changed queue: %s", out)
	}
	if out := ok(two, "queue", "get", "etl", "-o", "json"); !strings.Contains(out, `"limit": 9`) {
		t.Errorf("the queue is %s", out)
	}
	ok(two, "bundle", "apply", next, "--replace")
	if out := ok(two, "queue", "get", "etl", "-o", "json"); !strings.Contains(out, `"limit": 5`) {
		t.Errorf("the queue is %s", out)
	}
	// Queues and classes of a namespace have names with a slash.
	ok(one, "queue", "set", "default/own", "--limit", "2")
	ok(one, "queue", "set", "shop/own", "--limit", "3")
	ok(one, "class", "set", "default/tiny", "--cpu", "1")
	ok(two, "bundle", "apply", two.write("own.bundle", string(export(one, "own", "--namespace", "default"))))
	if out := ok(two, "queue", "list"); !strings.Contains(out, "default/own") || strings.Contains(out, "shop/own") {
		t.Errorf("the queues are %s", out)
	}
	ok(two, "bundle", "apply", two.write("all.bundle", string(export(one, "all"))))
	for name, bad := range map[string][]byte{"cut": whole[:len(whole)/2], "nothing": nil, "flipped": bytes.Replace(whole, []byte("echo from"), []byte("echo FROM"), 1)} {
		o := two.skein("bundle", "apply", two.write(name, string(bad)))
		if o.code == 0 || !strings.Contains(o.err, "is not a bundle") {
			t.Errorf("%s: %v", name, o)
		}
	}
	for name, item := range map[string]string{"another path": `{"kind":"queue","name":"../tokens","config":{}}`, "a line": `{"kind":"class","name":"a\nb","config":{}}`,
		"two slashes": `{"kind":"queue","name":"a/b/c","config":{}}`, "no namespace": `{"kind":"channel","name":"a","config":{}}`, "": `{"kind":"queue","name":"shop/a","config":{}}`} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, err := z.Create("bundle.json")
		if err == nil {
			_, err = w.Write([]byte(`{"bundle":1,"items":[` + item + `]}`))
		}
		if err = errors.Join(err, z.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := parseBundle(b.Bytes()); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if there := export(two, "last"); !bytes.Equal(there, export(one, "last")) {
		t.Error("the two databases differ")
	}
}

// TestBundleKilled kills an apply with kill -9 at several of its changes. Nothing is half applied, and the
// next apply changes what is left.
func TestBundleKilled(t *testing.T) {
	t.Parallel()
	one, two := newWorld(t), newWorld(t)
	ok := (*world).ok
	const flows = 6
	one.write("x.sh", "echo x\n")
	var text strings.Builder
	for i := range flows {
		fmt.Fprintf(&text, "---\nname: w%d\nfiles: [x.sh]\nqueue: etl\ntasks: {a: {run: sh x.sh}}\n", i)
	}
	ok(one, "queue", "set", "etl", "--limit", "5")
	ok(one, "workflow", "apply", one.write("all.yaml", text.String()))
	path := filepath.Join(t.TempDir(), "the.bundle")
	ok(one, "bundle", "export", path)
	ok(two, "queue", "set", "other", "--limit", "1") // this call also makes the database
	ok(two, "queue", "delete", "other")
	for done, most := 0, 2; most <= flows; most += 2 {
		cmd := two.command("bundle", "apply", path)
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), fmt.Sprintf("%d/%d ", most-done, flows+1-done)) {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		shown := ok(two, "bundle", "diff", path)
		if done = strings.Count(shown, "same"); done < most || done+strings.Count(shown, "created") != flows+1 {
			t.Fatalf("after a kill at change %d: %s", most, shown)
		}
	}
	ok(two, "bundle", "apply", path)
	again := filepath.Join(t.TempDir(), "again")
	ok(two, "bundle", "export", again)
	if a, b := must(os.ReadFile(path))(t), must(os.ReadFile(again))(t); !bytes.Equal(a, b) {
		t.Error("the export differs from the bundle")
	}
}
