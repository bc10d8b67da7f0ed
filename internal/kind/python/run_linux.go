package python

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/kind"
)

var errNoPython = errors.New("there is no program python3: install the packages python3 and python3-venv")

// Found describes what this machine has for the kind.
func Found() (string, error) {
	path, err := exec.LookPath(InterpreterDefault)
	if err != nil {
		return "", errNoPython
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if _, err := describe(ctx, path, true); err != nil {
		return path + ", for tasks without requirements: " + err.Error(), nil
	}
	return path, nil
}

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	if _, err := exec.LookPath(InterpreterDefault); err != nil {
		return errNoPython
	}
	return nil
}

// fault is an error together with its exit code.
type fault struct {
	code int
	err  error
}

func (f *fault) Error() string { return f.err.Error() }

func never(format string, args ...any) error {
	return &fault{kind.Permanent, fmt.Errorf(format, args...)}
}

// codeFor returns the exit code for an error.
func codeFor(err error) int {
	var f *fault
	if errors.As(err, &f) {
		return f.code
	}
	return kind.Failed
}

// plan is the information that the first process passes to the second one.
type plan struct {
	Python string `json:"python"`        // path of the interpreter
	Env    string `json:"env,omitempty"` // name of the environment; "" if the program needs none
}

// planFile returns the path of the plan's file.
func planFile(env *kind.Env) string { return env.Files + ".plan" }

// Prepare implements kind.Preparer. It builds the environment if it does not exist yet.
func (Kind) Prepare(ctx context.Context, env *kind.Env) int {
	err := prepare(ctx, env)
	if err == nil {
		return kind.Done
	}
	fmt.Fprintf(env.Stderr, "skein: python: %v\n", err)
	return codeFor(err)
}

func prepare(ctx context.Context, env *kind.Env) error {
	w, of, err := read(&env.Input)
	if err != nil {
		return never("%w", err)
	}
	all, err := w.requirements(env.Dir)
	if err != nil {
		return never("%w", err)
	}
	is, err := describe(ctx, w.Interpreter, len(all) > 0)
	if err != nil {
		return err
	}
	p := plan{Python: is.path}
	if len(all) > 0 {
		if env.Kept == "" {
			return &fault{kind.Away, errors.New("the keeper of this worker is of a version without environments: restart the worker when its attempts have ended")}
		}
		p.Env = w.digest(all, is.about)
		if err := complete(ctx, env, p.Env, of.Most, func(at string) error { return build(ctx, env, &w, all, is, at) }); err != nil {
			return err
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(planFile(env), text, 0o600)
}

// requirements returns the requirements of a task. dir is its working folder.
func (w *With) requirements(dir string) ([]string, error) {
	text := strings.Join(w.Requirements, "\n")
	if w.RequirementsFile != "" {
		path := filepath.Join(dir, w.RequirementsFile)
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("there is no file %s in the working folder: add it to the files of the workflow", w.RequirementsFile)
		}
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%w: if the machine isolates tasks, put the workflow into a folder of its own, or add access: {read: [%s]}", err, path)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		read, err := io.ReadAll(io.LimitReader(f, requirementsMax+1))
		if err != nil {
			return nil, err
		}
		text = string(read)
	}
	return CheckRequirements(text, w.Unlocked)
}

// probe is a program that makes an interpreter describe itself in one line. With an argument, it also checks
// for the modules that build environments, and reports the version of pip that they install.
const probe = `import sys, sysconfig, json
pip = ""
if len(sys.argv) > 1:
    import venv, ensurepip
    pip = ensurepip.version()
print(json.dumps([sys.executable, pip, sys.implementation.cache_tag, sys.version, sysconfig.get_platform(), sys.base_prefix]))`

// interpreter is a Python interpreter.
type interpreter struct {
	path   string
	about  string // the same for interpreters that can share environments
	shares bool   // its pip can install into other environments: 22.3 or later
}

// describe runs probe with an interpreter. builds says that the interpreter must be able to build
// environments.
func describe(ctx context.Context, name string, builds bool) (*interpreter, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, never("there is no program %s on this machine: install it, or let another worker run the task", name)
	}
	args := []string{"-I", "-c", probe}
	if builds {
		args = append(args, "venv")
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	var parts []string
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case strings.Contains(said.String(), "ensurepip") || strings.Contains(said.String(), "No module named 'venv'"):
		return nil, never("%s cannot make environments: install Debian's package python3-venv, or the module ensurepip", path)
	case err != nil:
		return nil, never("%s does not start: %v: %s", path, err, lastLine(said.String()))
	case json.Unmarshal(out, &parts) != nil || len(parts) != 6 || parts[0] == "":
		return nil, never("%s is no interpreter of Python 3", path)
	}
	var major, minor int
	_, _ = fmt.Sscanf(parts[1], "%d.%d", &major, &minor) // both stay 0 if there is no version
	about := strings.Join(slices.Delete(parts, 1, 2), "\n")
	return &interpreter{parts[0], about, major > 22 || major == 22 && minor >= 3}, nil
}

// lastLine returns the last line of a text, without the blank lines at its end.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// complete builds an environment if it does not exist yet. After a build it evicts others.
func complete(ctx context.Context, env *kind.Env, name string, most int64, build func(at string) error) error {
	s := store{env.Kept}
	began, built := time.Now(), false
	err := s.ensure(ctx, name, func() { fmt.Fprintf(env.Stdout, "skein: another attempt builds the environment %s\n", name) }, func(at string) error {
		built = true
		fmt.Fprintf(env.Stdout, "skein: building the environment %s\n", name)
		return build(at)
	})
	if err != nil || !built {
		return err
	}
	fmt.Fprintf(env.Stdout, "skein: the environment %s was built in %v\n", name, time.Since(began).Round(100*time.Millisecond))
	gone, err := s.evict(name, most, time.Now())
	if len(gone) > 0 {
		fmt.Fprintf(env.Stdout, "skein: %d environments were removed to make room\n", len(gone))
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "skein: environments cannot be removed: %v\n", err)
	}
	return nil
}

// pipFor makes an empty environment in the folder at, and returns the first words of a pip command for it. If
// the interpreter's pip can install into other environments, one environment holds pip for all others,
// because installing pip takes longer than installing most packages.
func pipFor(ctx context.Context, env *kind.Env, is *interpreter, at string) ([]string, error) {
	venv := func(args ...string) error {
		if err := run(ctx, env.Stdout, nil, append([]string{is.path, "-I", "-m", "venv"}, args...)...); err != nil {
			return fmt.Errorf("make an environment: %w", err)
		}
		return nil
	}
	pip := []string{"-I", "-m", "pip", "--disable-pip-version-check", "--no-input"}
	if !is.shares {
		return append([]string{filepath.Join(at, "bin", "python")}, pip...), venv(at)
	}
	s := store{env.Kept}
	name := (&With{}).digest(nil, is.about)
	if err := s.ensure(ctx, name, func() {}, func(at string) error { return venv(at) }); err != nil {
		return nil, err
	}
	pip = append([]string{filepath.Join(s.env(name), "bin", "python")}, pip...)
	return append(pip, "--python", filepath.Join(at, "bin", "python")), venv("--without-pip", at)
}

// build builds the environment in the folder at.
func build(ctx context.Context, env *kind.Env, w *With, all []string, is *interpreter, at string) error {
	pip, err := pipFor(ctx, env, is, at)
	if err != nil {
		return err
	}
	said := &tail{to: env.Stdout}
	list := env.Files + ".requirements"
	if err := os.WriteFile(list, []byte(strings.Join(all, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	install := append(slices.Clone(pip), "install", "--quiet", "--no-cache-dir", "--no-warn-script-location", "--retries", "2", "--timeout", "15", "-r", list)
	if !w.Unlocked {
		install = append(install, "--require-hashes")
	}
	proxy, err := openProxy(ctx, env.Input.Egress)
	if err != nil {
		return never("%w", err)
	}
	defer proxy.close()
	vars := []string{"PIP_PROXY=" + proxy.url()}
	switch {
	case w.Wheels != "":
		install = append(install, "--no-index", "--find-links", w.Wheels)
	case w.Index != "":
		// The URL is a variable and not an argument, because other users of the machine can see arguments.
		vars = append(vars, "PIP_INDEX_URL="+w.Index)
	}
	if err := run(ctx, said, vars, install...); err != nil {
		refused := proxy.refusal()
		if refused != nil {
			err = refused
		} else if why := reason(string(said.kept)); why != "" {
			err = errors.New(why)
		}
		return &fault{codeOf(string(said.kept), refused != nil), fmt.Errorf("install the packages: %w", err)}
	}
	if w.Unlocked { // write to the log which versions the index gave
		return run(ctx, env.Stdout, nil, append(pip, "freeze")...)
	}
	return nil
}

// reason returns the line in which pip says why it failed, or "" if there is none.
func reason(said string) string {
	why := ""
	for line := range strings.SplitSeq(said, "\n") {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "ERROR: "); is {
			why = text
		}
	}
	return why
}

// run runs a program until it ends or ctx ends.
func run(ctx context.Context, out io.Writer, vars []string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), vars...)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// tail forwards the text that is written to it, and keeps the end of the text.
type tail struct {
	to   io.Writer
	kept []byte
}

// tailMax bounds the bytes that a tail keeps.
const tailMax = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - tailMax; n > 0 {
		t.kept = t.kept[n:]
	}
	return t.to.Write(p)
}

// Main implements kind.Kind. It replaces this process with the program of the task, so it returns only if
// that fails.
func (Kind) Main(ctx context.Context, env *kind.Env) int {
	err := become(ctx, env)
	fmt.Fprintf(env.Stderr, "skein: python: %v\n", err)
	if writing := os.WriteFile(kind.EndFile(env.Files), []byte(err.Error()), 0o600); writing != nil {
		fmt.Fprintf(env.Stderr, "skein: python: %v\n", writing)
	}
	return codeFor(err)
}

// become replaces this process with the program of the task. The program keeps the lock of its environment.
func become(ctx context.Context, env *kind.Env) error {
	w, _, err := read(&env.Input)
	if err != nil {
		return never("%w", err)
	}
	var p plan
	text, err := os.ReadFile(planFile(env))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return fmt.Errorf("read the plan of the first process: %w", err)
	}
	vars := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, kind.InputVar+"=") })
	if os.Getenv("PYTHONUNBUFFERED") == "" { // makes the log live
		vars = append(vars, "PYTHONUNBUFFERED=1")
	}
	python := p.Python
	if p.Env != "" {
		s := store{env.Kept}
		lock, err := s.hold(ctx, p.Env, unix.LOCK_SH, func() {})
		if err != nil {
			return err
		}
		if _, ok := s.mark(p.Env); !ok {
			return errors.New("the environment was removed after its build: the folder of environments was changed by hand")
		}
		// Without FD_CLOEXEC, the program inherits the lock.
		if _, err := unix.FcntlInt(lock.Fd(), unix.F_SETFD, 0); err != nil {
			return err
		}
		bin := filepath.Join(s.env(p.Env), "bin")
		python = filepath.Join(bin, "python")
		vars = slices.DeleteFunc(vars, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
		vars = append(vars, "VIRTUAL_ENV="+s.env(p.Env), "PATH="+bin+":"+os.Getenv("PATH"))
	}
	argv := []string{python}
	switch {
	case w.Module != "":
		argv = append(argv, "-m", w.Module)
	case w.Code != "":
		file := env.Files + ".py"
		if err := os.WriteFile(file, []byte(w.Code), 0o600); err != nil {
			return err
		}
		argv = append(argv, file)
	default:
		argv = append(argv, w.File)
	}
	if in := os.Getenv(kind.InputVar); !strings.HasPrefix(in, "/proc/") { // a keeper of an earlier version wrote a file
		if err := os.Remove(in); err != nil {
			return fmt.Errorf("remove the input: %w", err)
		}
	}
	if err := syscall.Exec(python, append(argv, w.Args...), vars); err != nil {
		return fmt.Errorf("start %s: %w", python, err)
	}
	return nil
}
