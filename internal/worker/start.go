//go:build linux

package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// command holds what the fork and exec of an attempt need.
type command struct {
	path   string // path of the program
	argv   []string
	env    []string
	dir    string
	output string // $SKEIN_OUTPUT
	handle string // $SKEIN_HANDLE; "" if there is none
	search string // $PATH of the task

	first *command // process that prepares kept files before this one; nil if there is none
	kept  string
}

// byExtension maps extensions of script files to interpreters. It is for scripts that cannot be executed
// directly.
var byExtension = map[string]string{
	".py": "python3", ".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node", ".rb": "ruby", ".pl": "perl",
}

// codeExtension is the reverse of byExtension. It is needed because some interpreters check the extension.
var codeExtension = map[string]string{
	"python3": ".py", "python": ".py", "sh": ".sh", "bash": ".bash", "node": ".js", "ruby": ".rb", "perl": ".pl",
}

// prepare makes everything that an attempt needs before the fork. Its errors are messages for the Result.
func (a *attempt) prepare(wall *wall) (*command, error) {
	w, s, job := a.w, a.slot, a.job
	stem := job.Key.fileStem()
	cmd := &command{dir: job.Dir, output: s.folder + "/" + stem + ".out"}
	base := *w.base.Load()
	if wall != nil {
		base = wall.private(base, s.tmp(), job, w.toolsIn(wall))
	}
	own, err := s.outsideFiles(job, stem)
	if err != nil {
		return nil, fmt.Errorf("write the files of the attempt: %w", err)
	}
	if job.Handle {
		cmd.handle = s.folder + "/" + stem + ".handle"
	}
	cmd.env, cmd.search = taskEnv(job, base, cmd.output, own...)
	if cmd.dir != "" {
		dir, err := filepath.Abs(cmd.dir)
		if err != nil {
			return nil, fmt.Errorf("find the working directory: %w", err)
		}
		cmd.dir = dir
	} else {
		cmd.dir = s.dir()
		if job.Files != nil {
			if err := unpack(cmd.dir, job.Files); err != nil {
				return nil, fmt.Errorf("unpack the workflow's files: %w", err)
			}
		}
	}
	if err := a.bring(cmd.dir); err != nil {
		return nil, err
	}
	cmd.argv = job.Argv
	if job.Script != nil {
		if len(job.Argv) > 0 {
			return nil, errors.New("both a command and a script are given")
		}
		argv, err := job.Script.argv(s.folder, stem, cmd.dir)
		if err != nil {
			return nil, err
		}
		cmd.argv = argv
	}
	if err := a.furnishKind(cmd, wall, base, own); err != nil {
		return nil, err
	}
	if len(cmd.argv) == 0 || cmd.argv[0] == "" {
		return nil, errors.New("there is no program to run")
	}
	path, err := w.look(cmd.argv[0], cmd.search, cmd.dir)
	if err != nil {
		return nil, err
	}
	cmd.path = path
	if job.Kind != nil && job.Kind.House {
		cmd.argv[0] = "skein" // this name appears in lists of processes
	}
	if cmd.first != nil {
		cmd.first.path, cmd.first.argv[0] = cmd.path, cmd.argv[0]
	}
	return cmd, nil
}

// argv turns a script into a command. Inline code becomes a file in folder.
func (s *Script) argv(folder, stem, dir string) ([]string, error) {
	switch {
	case s.Code != "" && s.File != "":
		return nil, errors.New("both inline code and a file are given")
	case s.File != "":
		return s.fileArgv(dir)
	case s.Code == "":
		return nil, errors.New("the script is empty")
	}
	interpreter := []string{s.Interpreter}
	if s.Interpreter == "" {
		if interpreter = shebang([]byte(s.Code)); interpreter == nil {
			return nil, errors.New("inline code without an interpreter must begin with a #! line")
		}
	}
	name := stem + ".code" + codeExtension[filepath.Base(interpreter[0])]
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("write the inline code: %w", err)
	}
	defer root.Close()
	if err := writeNew(root, name, 0o600, []byte(s.Code)); err != nil {
		return nil, fmt.Errorf("write the inline code: %w", err)
	}
	return append(append(interpreter, folder+"/"+name), s.Args...), nil
}

// fileArgv returns the command for a script file. It uses the named interpreter if there is one. Otherwise it
// executes the file itself, if that is possible. Otherwise it uses the interpreter for the extension.
func (s *Script) fileArgv(dir string) ([]string, error) {
	path := s.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // opening a FIFO must not block
	if err != nil {
		if why := badDir(dir); why != nil {
			return nil, why
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("script %s does not exist: add it to the workflow's files, or correct file or dir", path)
		}
		return nil, fmt.Errorf("script cannot be read: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("script %s is not a regular file", path)
	}
	if s.Interpreter != "" {
		return append([]string{s.Interpreter, path}, s.Args...), nil
	}
	head := make([]byte, 256)
	n, _ := file.Read(head)
	head = head[:n]
	program := bytes.HasPrefix(head, []byte("#!")) || bytes.HasPrefix(head, []byte("\x7fELF"))
	if program && info.Mode()&0o111 != 0 {
		return append([]string{path}, s.Args...), nil
	}
	if interpreter, ok := byExtension[filepath.Ext(path)]; ok {
		return append([]string{interpreter, path}, s.Args...), nil
	}
	if program {
		return nil, fmt.Errorf("script %s is not executable: chmod +x it, or name its interpreter", path)
	}
	return nil, fmt.Errorf("script %s has no #! line and no extension that tells its interpreter: add one, or name its interpreter", path)
}

// shebang splits the #! line as the kernel does: into the program and at most one argument.
func shebang(code []byte) []string {
	line, _, _ := bytes.Cut(code, []byte("\n"))
	text, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\r"), "#!")
	if !ok {
		return nil
	}
	program, arg, _ := strings.Cut(strings.TrimSpace(text), " ")
	if program == "" {
		return nil
	}
	if arg = strings.TrimSpace(arg); arg != "" {
		return []string{program, arg}
	}
	return []string{program}
}

// shellAt is the path of sh in a PATH. It is "" if sh was not searched yet.
type shellAt struct{ search, path string }

// equip changes which variables of the node's environment tasks get.
func (w *Worker) equip(base []string) {
	w.base.Store(&base)
	w.tools.Store(nil)
	at := slices.IndexFunc(base, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") })
	if at < 0 {
		w.shell.Store(&shellAt{})
		return
	}
	w.shell.Store(&shellAt{search: strings.TrimPrefix(base[at], "PATH=")})
}

// look finds a program. Most tasks begin with the shell. So look searches the shell in the node's own PATH
// only once: reading every folder of PATH costs more than all other preparations.
func (w *Worker) look(name, search, dir string) (string, error) {
	known := w.shell.Load()
	if name != "sh" || search != known.search {
		return lookPath(name, search, dir)
	}
	if known.path != "" {
		return known.path, nil
	}
	path, err := lookPath(name, search, dir)
	if err == nil && filepath.IsAbs(path) {
		w.shell.CompareAndSwap(known, &shellAt{search, path})
	}
	return path, err
}

// lookAgain makes the next start search for the shell again, after a start that failed.
func (w *Worker) lookAgain() {
	if known := w.shell.Load(); known.path != "" {
		w.shell.CompareAndSwap(known, &shellAt{search: known.search})
	}
}

// lookPath finds a program as a shell in the task would: a name with a slash is a path from its working
// directory, and any other name is searched in its PATH.
func lookPath(name, search, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil // exec reports a missing file, after the change of directory
	}
	found := ""
	for entry := range strings.SplitSeq(search, ":") {
		path := entry + "/" + name
		at := path
		if entry == "" || entry[0] != '/' { // relative to the working directory; an empty entry is the working directory
			path = "./" + path
			at = filepath.Join(dir, path)
		}
		var st unix.Stat_t
		if unix.Stat(at, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			continue
		}
		if st.Mode&0o111 != 0 {
			return path, nil
		}
		found = path
	}
	if found != "" {
		return "", fmt.Errorf("program %s is not executable: chmod +x it", found)
	}
	return "", fmt.Errorf("program %q was not found in PATH (%s): install it, or give its full path", name, search)
}

// explain turns the error of fork and exec into a sentence. The isolation may have refused something; for
// other reasons see command.explain.
func (a *attempt) explain(err error) error {
	path := a.cmd.path
	if !filepath.IsAbs(path) {
		path = filepath.Join(a.cmd.dir, path)
	}
	if errors.Is(err, unix.EACCES) {
		if why := errors.Join(a.barred(a.cmd.dir, 0o1), a.barred(path, 0o5)); why != nil {
			return why
		}
	}
	absent := a.boxed && errors.Is(err, unix.ENOENT) && badDir(a.cmd.dir) == nil // the path is missing only in the box
	if a.spec != nil && (errors.Is(err, unix.EACCES) || absent) && unix.Access(path, unix.X_OK) == nil {
		return fmt.Errorf("isolation does not let the task read program %s, or the interpreter that the program names: add access: {read: [%s]} to the task", path, filepath.Dir(path))
	}
	return a.cmd.explain(err)
}

// barred returns an error if the user of the attempt may not access a path that exists.
func (a *attempt) barred(path string, want uint32) error {
	if a.uid == 0 || !exists(path) || permits(path, a.uid, a.gid, want) {
		return nil
	}
	return fmt.Errorf("user %d of namespace %s may not reach %s: change the permissions of the path, or put it elsewhere", a.uid, a.job.Key.Namespace, path)
}

// explain turns the error of fork and exec into a sentence with a remedy. The kernel returns the same error
// number if a folder, the program or its interpreter is at fault, so explain checks which one it is.
func (c *command) explain(err error) error {
	if why := badDir(c.dir); why != nil {
		return why
	}
	path := c.path
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.dir, path)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		if !exists(path) {
			return fmt.Errorf("program %s does not exist: correct the path, or install it", path)
		}
		if line := head(path); line != nil {
			return fmt.Errorf("the #! line of %s names %q, which does not exist: install it or correct the line%s", path, line[0], crlfHint(path))
		}
		return fmt.Errorf("program %s needs a loader that does not exist here: it was built for another system", path)
	case errors.Is(err, unix.EACCES):
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a folder, not a program", path)
		}
		return fmt.Errorf("program %s is not executable: chmod +x it, or name an interpreter", path)
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%s is not a program for this machine and has no #! line: add one, or name an interpreter", path)
	case errors.Is(err, unix.E2BIG):
		return errors.New("arguments and environment are too large for the kernel: pass large data in a file")
	case errors.Is(err, unix.EINVAL) && strings.ContainsRune(strings.Join(c.argv, "")+strings.Join(c.env, ""), 0):
		return errors.New("an argument or environment variable contains a NUL byte")
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return fmt.Errorf("the node cannot start more processes: %w", err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// badDir returns the reason why dir cannot be a working directory. It returns nil if it can.
func badDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("working directory %s does not exist: create it on this worker, or correct dir", dir)
	case err != nil:
		return fmt.Errorf("working directory cannot be used: %w", err)
	case !info.IsDir():
		return fmt.Errorf("working directory %s is not a directory", dir)
	case unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("working directory %s may not be entered by the worker's user", dir)
	}
	return nil
}

// head returns the #! line of a file, or nil if it has none.
func head(path string) []string {
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer file.Close()
	buf := make([]byte, 256)
	n, _ := file.Read(buf)
	return shebang(buf[:n])
}

func crlfHint(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	buf := make([]byte, 256)
	n, _ := file.Read(buf)
	if line, _, _ := bytes.Cut(buf[:n], []byte("\n")); bytes.HasSuffix(line, []byte("\r")) {
		return " (the file has Windows line ends: convert it)"
	}
	return ""
}
