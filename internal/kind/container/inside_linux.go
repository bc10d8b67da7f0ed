package container

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// InsideArg is the argument after the name of the kind with which this program is the first process of a
// container of Docker.
const InsideArg = "inside"

// order is what the first process of a container reads from the process of the attempt, on one line. So
// neither the engine nor a disk keeps the variables of the task, which may be secret.
type order struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"` // in addition to the variables of the image
}

const orderMax = 8 << 20 // bytes of an order

// orderSocket is the socket of the process of the attempt, as the container sees it.
const orderSocket = ownAt + "/" + socketFile

// Exit codes of the first process, as a shell has them.
const (
	codeNotExecuted = 126
	codeNotFound    = 127
)

// Inside is the main function of the first process of a container of Docker. It starts the command of the
// task, reaps processes, and forwards signals. It ends when its connection to the process of the attempt
// ends, and the kernel then kills all other processes of the container. The kernel closes the connection of a
// killed process, so this needs neither the engine nor a worker.
func Inside() int {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "skein kind container: this command is started by the engine of a container")
		return codeNotExecuted
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the command may not change this process
	conn, err := net.Dial("unix", orderSocket)
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein: the first process of the container does not reach the attempt: %v\n", err)
		return codeNotExecuted
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	o, err := readOrder(in)
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein: the first process of the container got no command: %v\n", err)
		return codeNotExecuted
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM)
	pid, err := o.start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "skein: %v\n", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return codeNotFound
		}
		return codeNotExecuted
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(128 + int(syscall.SIGKILL))
	}()
	go func() {
		for range signals {
			_ = syscall.Kill(-1, syscall.SIGTERM) // all processes of the container except this one
		}
	}()
	return reap(pid)
}

// readOrder reads one line.
func readOrder(in *bufio.Reader) (o order, err error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); err == nil {
			return o, json.Unmarshal(line, &o)
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > orderMax {
			return o, err
		}
	}
}

// start starts the command.
func (o *order) start() (pid int, err error) {
	if len(o.Argv) == 0 {
		return 0, errors.New("neither the task nor the image has a command")
	}
	for name, value := range o.Env {
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	if err := os.Chdir(workAt); err != nil { // the attempt has given the folder to the user of this process
		return 0, err
	}
	path, err := exec.LookPath(o.Argv[0])
	if err != nil {
		return 0, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if pid, err = syscall.ForkExec(path, o.Argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), 1, 2}}); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return pid, nil
}

// reap waits for the command, and for all processes that lose their parent meanwhile. It returns the exit
// code of the command.
func reap(command int) int {
	var status syscall.WaitStatus
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == command && status.Signaled():
			if status.Signal() == syscall.SIGKILL && outOfMemory() {
				fmt.Fprintln(os.Stderr, "skein: the kernel killed a process of the container, because the container used more than its memory")
			}
			return 128 + int(status.Signal())
		case pid == command:
			return status.ExitStatus()
		case err != nil && !errors.Is(err, syscall.EINTR):
			return codeNotExecuted
		}
	}
}

// outOfMemory reports whether the kernel has killed a process of this container because of its limit.
func outOfMemory() bool {
	for _, at := range []string{"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"} {
		text, _ := os.ReadFile(at)
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok && n != "0" {
				return true
			}
		}
	}
	return false
}

// first is the program that is the first process of a container: its files on this machine, by their paths in
// the container, and its command line.
type first struct {
	files map[string]string
	argv  []string
}

// firstProcess returns this program as the first process of a container. If it is linked with libraries of
// the machine, the container gets these, too, because the image may have other ones or none. firstProcess
// copies the program into folder if the program's file was replaced after this process started, or if other
// users may not execute it.
func firstProcess(folder string) (f first, err error) {
	const self = "/proc/self/exe"
	path, err := os.Readlink(self)
	if err != nil {
		return f, err
	}
	libraries, err := mapped()
	if err != nil {
		return f, err
	}
	now, errNow := os.Stat(path)
	started, err := os.Stat(self)
	if err != nil {
		return f, err
	}
	const others = 0o001 // the user of the container executes it
	if errNow != nil || !os.SameFile(now, started) || started.Mode().Perm()&others == 0 || !plainPath(path) {
		path = filepath.Join(folder, "program")
		if err := copyFile(self, path); err != nil {
			return f, err
		}
	}
	const at, library = ownAt + "/init", ownAt + "/lib"
	f.files = map[string]string{at: path}
	for _, from := range libraries {
		name := filepath.Base(from)
		f.files[library+"/"+name] = from
		if strings.HasPrefix(name, "ld-") { // this is the loader, which gets the folder of the other libraries
			f.argv = []string{library + "/" + name, "--library-path", library}
		}
	}
	if len(libraries) > 0 && f.argv == nil {
		return f, errors.New("this program is linked with libraries of the machine, and their loader is not known: build it with CGO_ENABLED=0")
	}
	f.argv = append(f.argv, at, "kind", Name, InsideArg)
	return f, nil
}

// mapped returns the shared libraries of this process.
func mapped() (paths []string, err error) {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 6 || !strings.HasPrefix(fields[5], "/") || !strings.Contains(filepath.Base(fields[5]), ".so") || seen[fields[5]] {
			continue
		}
		seen[fields[5]] = true
		paths = append(paths, fields[5])
	}
	return paths, nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
