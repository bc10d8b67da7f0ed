//go:build linux

package main

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"

	"skein.dev/skein/internal/extension"
)

// postOffice is a mail server.
type postOffice struct {
	mu    sync.Mutex
	mails []string
}

func (p *postOffice) NewSession(*smtp.Conn) (smtp.Session, error) { return letter{p}, nil }

type letter struct{ *postOffice }

func (letter) Mail(string, *smtp.MailOptions) error { return nil }
func (letter) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, Message: "no such user"}
	}
	return nil
}
func (l letter) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mails = append(l.mails, string(text))
	return err
}
func (letter) Reset()        {}
func (letter) Logout() error { return nil }

// extensionFiles finds the parts of docs/extensions.md that are files.
var extensionFiles = regexp.MustCompile("(?s)```(?:yaml|python)\n(.*?)```")

// documented writes the extension of docs/extensions.md into a folder.
func documented(t *testing.T, folder string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/extensions.md")
	if err != nil {
		t.Fatal(err)
	}
	found := extensionFiles.FindAllStringSubmatch(string(page), 2)
	if len(found) < 2 || !strings.Contains(found[1][1], "SKEIN_INPUT") {
		t.Fatal("docs/extensions.md does not begin with the files of an extension")
	}
	at := filepath.Join(folder, "mail")
	err = errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, extension.FileName), []byte(found[0][1]), 0o644),
		os.WriteFile(filepath.Join(at, "mail.py"), []byte(found[1][1]), 0o755))
	if err != nil {
		t.Fatal(err)
	}
}

// TestExtension runs the kind of docs/extensions.md on a node on SQLite. It begins before the extension is
// installed.
func TestExtension(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	office, l := &postOffice{}, listener(t)
	server := smtp.NewServer(office)
	server.Domain = "localhost"
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	closed := listener(t)
	_ = closed.Close()
	p := w.server()
	set := w.command("secret", "set", "CANARY")
	set.Stdin = strings.NewReader("canary-5521")
	if o := w.call(set); o.code != exitOK {
		t.Fatal(o)
	}
	p.apply("tell", `  tell:
    kind: mail
    with: {to: "ada@example.org", text: "it says ${{ secrets.CANARY }}", server: "`+l.Addr().String()+`"}
    outputs: {id: string}
  use: {needs: tell, env: {ID: "${{ tasks.tell.outputs.id }}"}, run: 'echo "got $ID"'}
`)
	run := p.begin("tell", nil)
	w.eventually("the task waits for its kind", func() bool {
		return strings.Contains(w.skein("explain", run, "-o", "json").out, `"no_worker"`)
	})
	documented(t, filepath.Join(w.data, "extensions"))
	bad := filepath.Join(w.data, "extensions", "bad")
	if err := errors.Join(os.MkdirAll(bad, 0o700), os.WriteFile(filepath.Join(bad, "extension.yaml"), []byte("extension: 1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.skein("extension", "reload")
	w.eventually("the server lists the kind, and the folder that it refuses", func() bool {
		out := w.skein("extension", "list", "--cluster").out
		return strings.Contains(out, "mail\textension\t") && strings.Contains(out, "\t"+bad+"\t")
	})
	if err := os.RemoveAll(bad); err != nil {
		t.Fatal(err)
	}
	p.wantState(run, "succeeded")
	w.eventually("the log of use", func() bool { return strings.Contains(p.logOf(run, "use", 1), "got <"+run+".tell@skein>") })
	if log := p.logOf(run, "tell", 1); !strings.HasPrefix(log, "skein: kind mail, version 1.2.0, digest ") {
		t.Errorf("%q", log)
	}
	office.mu.Lock()
	if len(office.mails) != 1 || !strings.Contains(office.mails[0], "it says canary-5521") {
		t.Errorf("%q", office.mails)
	}
	office.mu.Unlock()
	holdsNot(t, w.data, "canary-5521")
	p.apply("refused", `  a: {kind: mail@1.2, with: {to: "nobody@example.org", text: x, server: "`+l.Addr().String()+`"}, retry: {max: 5}}`)
	p.apply("away", `  a: {kind: mail, with: {to: "ada@example.org", text: x, server: "`+closed.Addr().String()+`"}, patience: 1s}`)
	for name, cause := range map[string]string{"refused": "permanent", "away": "away"} {
		is := p.wantState(p.begin(name, nil), "failed")
		if all := taskOf(t, &is, "a").Attempts; len(all) != 1 || deref(all[0].Cause) != cause {
			t.Errorf("%s: %+v", name, all)
		}
	}
	file := w.write("bad.yaml", "name: bad\ntasks:\n  a: {kind: mail, with: {to: ada}}\n")
	for _, args := range [][]string{{"validate", file}, {"workflow", "apply", file}} {
		if o := w.skein(args...); o.code != exitInvalid || !strings.Contains(o.err, "with.text") {
			t.Errorf("%v: %s", args, o)
		}
	}
	if o := w.skein("extension", "test", filepath.Join(w.data, "extensions", "mail"), "mail", "--with", `{"to":"a@b","text":"x","server":"`+l.Addr().String()+`"}`); o.code != exitOK || !strings.Contains(o.out, `"id"`) {
		t.Errorf("%s", o)
	}
	if o := w.skein("extension", "init", filepath.Join(w.dir, "first")); o.code != exitOK {
		t.Errorf("%s", o)
	}
	if o := w.skein("extension", "check", filepath.Join(w.dir, "first")); o.code != exitOK {
		t.Errorf("%s", o)
	}
	p.stop()
	w.verify()
}

// holdsNot fails if a file below a folder holds a text.
func holdsNot(t *testing.T, folder, text string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil // removed in the meantime, or a socket
		}
		if content, err := os.ReadFile(path); err == nil && strings.Contains(string(content), text) {
			t.Errorf("%s holds %s", path, text)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestExtensionOfAWorker: in a cluster, a task goes to the worker that has its kind, which also runs other
// tasks. The attempt outlives the worker's process.
func TestExtensionOfAWorker(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1, "SKEIN_ROLES=api,scheduler")
	dir := t.TempDir()
	at := filepath.Join(dir, "gate")
	err := errors.Join(os.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, extension.FileName), []byte("extension: 1\nname: gate\nversion: 2.0.1\nkinds: {gate: {run: [./gate.sh]}}\n"), 0o644),
		os.WriteFile(filepath.Join(at, "gate.sh"), []byte("#!/bin/sh\ncd "+dir+"\ngrep -o '\"token\":[0-9]*' $SKEIN_INPUT >> begun\nuntil [ -e open ]; do sleep 0.01; done\ngrep -q '\"day\":\"monday\"' $SKEIN_INPUT && echo day=monday >> $SKEIN_OUTPUT\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	f.worker("w1")
	w2 := f.worker("w2", "--extensions", dir)
	f.listed(3)
	file := filepath.Join(dir, "w.yaml")
	source := "name: gated\ntasks:\n  a: {kind: gate@2, with: {day: monday}, outputs: {day: string}}\n  b: {needs: a, node: w2, env: {D: \"${{ tasks.a.outputs.day }}\"}, run: 'test \"$D\" = monday'}\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	m := f.members[0]
	m.home.run("workflow", "apply", file)
	run := strings.TrimSpace(string(m.home.run("run", "--detach", "-o", "name", "--", "gated")))
	f.until("the attempt has begun", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })
	w2.kill()
	w2.start()
	f.until("the worker continues", func() bool { return f.row("lease", "w2") != "1" })
	if err := os.WriteFile(filepath.Join(dir, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m.home.run("run", "watch", run)
	begun, _ := os.ReadFile(filepath.Join(dir, "begun"))
	if strings.Count(string(begun), "token") != 1 {
		t.Errorf("it has begun more than once: %s", begun)
	}
	page, err := m.client.Tasks(t.Context(), run, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range page.Items {
		if len(task.Attempts) != 1 || task.Attempts[0].Node != "w2" {
			t.Errorf("task %s: %+v", task.Name, task.Attempts)
		}
	}
}

// TestGivenOutputs: if a task writes no output that the manifest declares, givenOutputs returns no error. It
// does not find the name id in the word width.
func TestGivenOutputs(t *testing.T) {
	types := map[string]string{"id": "string", "width": "int"}
	for text, want := range map[string]string{"width=3": `{"width":3}`, "": "", "id=7\nother=x": `{"id":"7","other":"x"}`, `{"width":4}`: `{"width":4}`} {
		if all, err := givenOutputs([]byte(text), types); err != nil || string(all) != want {
			t.Errorf("%q: %s, %v", text, all, err)
		}
	}
	if _, err := givenOutputs([]byte("width=wide"), types); err == nil {
		t.Error("a text is taken for an int")
	}
}
