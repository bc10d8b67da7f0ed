package python

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// TestMain makes this test binary execute the processes of an attempt.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "kind" {
		ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		if len(os.Args) > 2 {
			os.Exit(kind.RunPrepare(ctx, Kind{}))
		}
		os.Exit(kind.Run(ctx, Kind{}))
	}
	os.Exit(m.Run())
}

// wheel returns a package with the name demo, and its hash. Its module has one function.
func wheel(t *testing.T) (content []byte, hash string) {
	t.Helper()
	var buf, record bytes.Buffer
	z := zip.NewWriter(&buf)
	add := func(name, text string) {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	add("demo.py", "def answer():\n    return 42\n")
	add("demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
	add("demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: skein\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	add("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\ndemo = demo:answer\n")
	record.WriteString("demo-1.0.dist-info/RECORD,,\n")
	add("demo-1.0.dist-info/RECORD", record.String())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	return buf.Bytes(), hex.EncodeToString(sum[:])
}

const wheelName = "demo-1.0-py3-none-any.whl"

// machine holds the folder with the environments of a namespace.
type machine struct {
	*testing.T
	dir, kept string
	egress    string
	n         atomic.Int32
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if _, err := describe(t.Context(), "python3", true); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	m := &machine{T: t, dir: t.TempDir(), kept: t.TempDir(), egress: egress.Any}
	return m
}

func (m *machine) ok(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// attempt starts the processes of an attempt, one after the other.
type attempt struct {
	m    *machine
	vars []string
	out  string // path in SKEIN_OUTPUT
}

func (m *machine) attempt(w With) *attempt {
	m.Helper()
	var err error
	in := kind.Input{Kind: Name}
	in.Egress, err = json.Marshal(egress.Rules{Policies: []string{m.egress}})
	m.ok(err)
	in.With, err = json.Marshal(w)
	m.ok(err)
	text, err := json.Marshal(in)
	m.ok(err)
	a := &attempt{m: m, out: filepath.Join(m.TempDir(), fmt.Sprint("out", m.n.Add(1)))}
	m.ok(os.WriteFile(a.out+".in", text, 0o600))
	a.vars = append(os.Environ(), kind.InputVar+"="+a.out+".in", kind.OutputVar+"="+a.out, "SKEIN_KIND_FOLDER="+m.kept, "HOME="+m.dir, "COLOR=blue")
	return a
}

// process returns a process of the attempt, not yet started, and its log.
func (a *attempt) process(args ...string) (*exec.Cmd, *bytes.Buffer) {
	self, err := os.Executable()
	a.m.ok(err)
	var out bytes.Buffer
	cmd := exec.Command(self, append([]string{"kind"}, args...)...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = a.vars, a.m.dir, &out, &out
	return cmd, &out
}

func (a *attempt) prepare() (int, string) {
	cmd, out := a.process(prepareArg)
	_ = cmd.Run() // the exit code shows the outcome
	return cmd.ProcessState.ExitCode(), out.String()
}

func (a *attempt) run() (int, string) {
	cmd, out := a.process()
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String()
}

const prepareArg = "prepare"

// index starts a package index. It serves the package once open is closed.
func index(t *testing.T, content []byte, open <-chan struct{}, asked func()) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/demo/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".whl") {
			asked()
			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
			_, _ = w.Write(content)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/demo/%s">%s</a>`, wheelName, wheelName)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// TestEnvironment checks that a killed build leaves no usable environment. If three attempts need the
// environment at once, one builds it, and the others wait. The program gets the packages, its arguments and
// the variables of the task, and its exit code is that of the attempt.
func TestEnvironment(t *testing.T) {
	m := newMachine(t)
	content, hash := wheel(t)
	asked, open := make(chan struct{}, 10), make(chan struct{})
	w := With{File: "report.py", Args: []string{"a b", "$x"}, Requirements: []string{"demo==1.0 --hash=sha256:" + hash}, Index: index(t, content, open, func() { asked <- struct{}{} })}
	m.ok(os.WriteFile(filepath.Join(m.dir, "report.py"), []byte("import demo, os, sys, shutil\nprint(demo.answer(), sys.argv[1:], os.environ['COLOR'], 'SKEIN_INPUT' in os.environ, shutil.which('demo') is not None)\nsys.exit(75)\n"), 0o600))

	first, _ := m.attempt(w).process(prepareArg)
	first.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.ok(first.Start())
	<-asked // the environment exists, but the package is not installed yet
	m.ok(syscall.Kill(-first.Process.Pid, syscall.SIGKILL))
	_ = first.Wait() // an error, because it was killed
	entries, err := filepath.Glob(m.kept + "/*.lock")
	m.ok(err)
	s, name := store{m.kept}, ""
	for _, e := range entries { // the other environment holds pip
		if n := strings.TrimSuffix(filepath.Base(e), ".lock"); !s.use(n) {
			name += n
		}
	}
	if len(entries) != 2 || len(name) != 32 {
		t.Fatalf("%q, and %q are not complete", entries, name)
	}
	m.ok(os.WriteFile(filepath.Join(s.env(name), "rest"), nil, 0o600))

	close(open)
	var all sync.WaitGroup
	var builds, waits atomic.Int32
	a := m.attempt(w)
	for _, a := range []*attempt{a, m.attempt(w), m.attempt(w)} {
		all.Go(func() {
			code, out := a.prepare()
			if code != kind.Done {
				t.Errorf("%d: %s", code, out)
			}
			builds.Add(int32(strings.Count(out, "was built in")))
			waits.Add(int32(strings.Count(out, "another attempt builds")))
		})
	}
	all.Wait()
	if builds.Load() != 1 || len(asked) != 1 {
		t.Errorf("%d builds, %d waited, %d downloads", builds.Load(), waits.Load(), len(asked))
	}
	if _, err := os.Stat(filepath.Join(s.env(name), "rest")); err == nil {
		t.Error("the rest of the killed build is part of the environment")
	}
	code, out := a.run()
	if want := "42 ['a b', '$x'] blue False True\n"; code != kind.Away || out != want {
		t.Errorf("%d, %q", code, out)
	}
	if _, err := os.Stat(kind.EndFile(a.out)); err == nil {
		t.Error("the exit code of the program counts as that of the kind")
	}
	m.faults(content, hash)
	m.holds(w, s, name)
}

// holds checks that an environment is not evicted while a program uses it.
func (m *machine) holds(w With, s store, name string) {
	m.Helper()
	w.File, w.Code = "", "import demo, time\nprint('on', flush=True)\ntime.sleep(600)\n"
	a := m.attempt(w)
	if code, out := a.prepare(); code != kind.Done || strings.Contains(out, "built") {
		m.Fatalf("%d: %s", code, out)
	}
	cmd, _ := a.process()
	cmd.Stdout = nil
	pipe, err := cmd.StdoutPipe()
	m.ok(err)
	m.ok(cmd.Start())
	_, err = pipe.Read(make([]byte, 3))
	m.ok(err)
	later := time.Now().Add(time.Hour)
	// evict removes the environment with pip and the rest of the killed build.
	if gone, err := s.evict("", 1, later); err != nil || len(gone) == 0 || slices.Contains(gone, name) {
		m.Errorf("%v, %v", gone, err)
	}
	m.ok(cmd.Process.Kill())
	_ = cmd.Wait() // an error, because it was killed
	if gone, err := s.evict("", 1, later); err != nil || len(gone) != 1 || gone[0] != name {
		m.Errorf("%v, %v", gone, err)
	}
	if left, err := os.ReadDir(m.kept); err != nil || len(left) != 0 {
		m.Errorf("%v, %v", left, err)
	}
}

// faults checks that each fault gets a reason, and an exit code that decides about a retry. It uses the
// existing environment with pip, because building one takes seconds.
func (m *machine) faults(content []byte, hash string) {
	m.Helper()
	before, err := filepath.Glob(m.kept + "/*.done")
	m.ok(err)
	m.ok(os.WriteFile(filepath.Join(m.dir, wheelName), content, 0o600))
	open := make(chan struct{})
	close(open)
	url := index(m.T, content, open, func() {})
	wrong := []string{"demo==1.0 --hash=sha256:" + strings.Repeat("0", 64)}
	for name, c := range map[string]struct {
		w    With
		code int
		why  string
	}{
		"the hash differs":      {With{File: "a", Requirements: wrong, Wheels: "."}, kind.Permanent, "DO NOT MATCH THE HASHES"},
		"egress refuses":        {With{File: "a", Requirements: []string{"demo == 1.0 --hash=sha256:" + hash}, Index: url}, kind.Permanent, "is refused"},
		"there is no file":      {With{File: "a", RequirementsFile: "no.txt"}, kind.Permanent, "add it to the files"},
		"there is no program":   {With{File: "a", Interpreter: "python9"}, kind.Permanent, "no program python9"},
		"it is no Python":       {With{File: "a", Interpreter: "true"}, kind.Permanent, "no interpreter"},
		"two programs":          {With{File: "a", Module: "b"}, kind.Permanent, "one of file"},
		"there are no packages": {With{File: "a"}, kind.Done, ""},
	} {
		m.egress = egress.Public
		if code, out := m.attempt(c.w).prepare(); code != c.code || !strings.Contains(out, c.why) {
			m.Errorf("%s: %d: %s", name, code, out)
		}
	}
	if after, err := filepath.Glob(m.kept + "/*.done"); err != nil || len(after) != len(before) {
		m.Errorf("%q, %q, %v", before, after, err)
	}
	// If the second process cannot start the program, it says why, so that its own exit code counts.
	a := m.attempt(With{Module: "demo", Requirements: wrong, Wheels: "."})
	m.ok(os.WriteFile(a.out+".plan", []byte(`{"python":"/usr/bin/python3","env":"0123"}`), 0o600))
	code, out := a.run()
	if why, err := os.ReadFile(kind.EndFile(a.out)); code != kind.Failed || err != nil || len(why) == 0 {
		m.Errorf("%d, %q, %q, %v", code, out, why, err)
	}
}

// TestEvict checks that environments are evicted in the order of their last use, and that the rests of killed
// builds are always removed.
func TestEvict(t *testing.T) {
	s := store{t.TempDir()}
	now := time.Now()
	for i, name := range []string{"old", "held", "keep", "rest", "young", "new"} {
		err := s.ensure(t.Context(), name, func() {}, func(at string) error {
			return os.WriteFile(at, bytes.Repeat([]byte("x"), 100), 0o600)
		})
		if err == nil && name == "rest" {
			err = os.Remove(s.done(name))
		}
		used := now.Add(time.Duration(i-10) * time.Hour)
		if name == "new" {
			used = now
		}
		if err == nil {
			err = os.Chtimes(s.lock(name), used, used)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := s.hold(t.Context(), "held", unix.LOCK_SH, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if gone, err := s.evict("keep", 400, now); err != nil || strings.Join(gone, " ") != "old rest" {
		t.Errorf("%q, %v", gone, err)
	}
	if gone, err := s.evict("keep", 0, now); err != nil || strings.Join(gone, " ") != "young" {
		t.Errorf("%q, %v", gone, err)
	}
	for name, is := range map[string]bool{"old": false, "rest": false, "held": true, "keep": true, "new": true} {
		if s.use(name) != is {
			t.Errorf("%s: %v", name, !is)
		}
	}
	err = s.ensure(t.Context(), "slow", func() {}, func(at string) error {
		began := now.Add(-time.Hour)
		return errors.Join(os.WriteFile(at, []byte("x"), 0o600), os.Chtimes(s.lock("slow"), began, began))
	})
	if gone, evicting := s.evict("keep", 0, time.Now()); err != nil || evicting != nil || len(gone) > 0 {
		t.Errorf("an environment whose build took an hour goes before its first use: %q, %v, %v", gone, err, evicting)
	}
	failed := s.ensure(t.Context(), "bad", func() {}, func(at string) error {
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		return fmt.Errorf("no")
	})
	if _, err := os.Stat(s.env("bad")); failed == nil || err == nil {
		t.Errorf("%v, %v", failed, err)
	}
}
