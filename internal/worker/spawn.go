//go:build linux

package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/threads"
)

// bornMax bounds the time until the first message of a new keeper. Before that message, the keeper kills the
// processes of an earlier keeper.
const bornMax = time.Minute

// bornTries is the number of new keepers in a row that may be killed before spawn fails.
const bornTries = 3

// farewellMax bounds the time between the end of a keeper's connection and the end of the keeper.
const farewellMax = time.Second

// keeperLogMax bounds the size of keeper.log in bytes when a keeper is started; a larger file is emptied.
const keeperLogMax = 1 << 20

// peer is a keeper as its worker sees it.
type peer struct {
	*stream
	pid   int
	pidfd int              // -1 if none
	gone  chan struct{}    // closed when the keeper ends, if it is a child of this process
	state *os.ProcessState // the status of a child that has ended

	mu sync.Mutex // held while a goroutine waits for the end of the keeper
}

// find returns the running keeper, or a new one.
func (l *Link) find(ctx context.Context) (*peer, *welcome, error) {
	p, w, err := l.call(ctx)
	if err == nil {
		return p, w, nil
	}
	if !errors.Is(err, errNobody) {
		l.log.Warn("an earlier keeper cannot be used; it ends, and its attempts are lost", "code", "keeper_unusable", "err", err)
	}
	return l.spawn(ctx)
}

// errNobody says that no keeper is running.
var errNobody = errors.New("no keeper is running")

// call connects to a running keeper. If the keeper has another version or does not answer, call kills it.
func (l *Link) call(ctx context.Context) (*peer, *welcome, error) {
	conn, err := viaFolder(filepath.Join(l.data, "work"), dial)
	if err != nil {
		return nil, nil, errNobody
	}
	p := &peer{stream: newStream(conn, newsMax), pidfd: -1}
	if cred := peerOf(conn); cred != nil { // this is the process that listens
		p.pid = int(cred.Pid)
		p.pidfd, _ = unix.PidfdOpen(p.pid, 0)
	}
	w, err := l.greet(ctx, p, greetMax)
	if err == nil {
		return p, w, nil
	}
	if errors.Is(err, errVersion) || errors.Is(err, os.ErrDeadlineExceeded) {
		p.kill()
	} else { // the keeper that was found was about to end
		err = errNobody
	}
	_ = conn.Close()
	return nil, nil, err
}

func dial(path string) (*net.UnixConn, error) {
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
}

// greet waits for the welcome.
func (l *Link) greet(ctx context.Context, p *peer, limit time.Duration) (*welcome, error) {
	deadline := time.Now().Add(limit)
	if err := p.stream.greet(deadline); err != nil {
		return nil, err
	}
	p.wire.show = l.lock // a frozen keeper has sent no greeting, so it does not get the lock
	if err := p.write(l.hello()); err != nil {
		return nil, err
	}
	_ = p.conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetDeadline(time.Now()) })
	defer stop()
	var n news
	if err := p.read(&n); err != nil {
		return nil, err
	}
	if n.Welcome == nil {
		return nil, fmt.Errorf("%w: no welcome", errVersion)
	}
	l.hear(&news{Lines: n.Lines})
	return n.Welcome, p.conn.SetDeadline(time.Time{})
}

// errKilled says that a keeper was killed before its first message: by an operator, or by the kernel because
// the machine had no memory left.
var errKilled = errors.New("it was killed")

// spawn starts a keeper. If the keeper is killed before its first message, spawn starts another one.
func (l *Link) spawn(ctx context.Context) (*peer, *welcome, error) {
	for try := 1; ; try++ {
		p, w, err := l.bear(ctx)
		if err == nil {
			return p, w, nil
		}
		err = fmt.Errorf("start a keeper: %w", err)
		if !errors.Is(err, errKilled) || try == bornTries || ctx.Err() != nil {
			return nil, nil, err
		}
		l.log.Warn("a keeper was killed while it started; another one starts", "code", "keeper_start_killed", "err", err)
	}
}

// bear starts this program as a keeper: under another name, without the terminal and the process group, and
// with one end of a connection. The keeper inherits nothing else from this process.
func (l *Link) bear(ctx context.Context) (*peer, *welcome, error) {
	if os.Getenv(keeperVar) != "" {
		return nil, nil, errors.New("a keeper does not start keepers: " + keeperVar + " is set")
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connect it: %w", err)
	}
	mine, its := os.NewFile(uintptr(fds[0]), "keeper"), os.NewFile(uintptr(fds[1]), "keeper")
	defer mine.Close()
	defer its.Close()
	said, err := os.OpenFile(filepath.Join(l.data, "work", keeperLog), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer said.Close()
	from, err := said.Seek(0, io.SeekEnd)
	if err == nil && from > keeperLogMax {
		from, err = 0, said.Truncate(0)
	}
	if err != nil {
		return nil, nil, err
	}
	args := []string{os.Args[0], "keeper", "--lease", l.lease.String()}
	if l.cfg.GroupsOnly {
		args = append(args, "--groups")
	}
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append(args, l.data), Dir: l.data, Env: keeperEnv(l.data), Stderr: said,
		ExtraFiles: []*os.File{its}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	runtime.LockOSThread()
	threads.Unchanged()
	err = cmd.Start()
	runtime.UnlockOSThread()
	if err != nil {
		return nil, nil, err
	}
	p := &peer{pid: cmd.Process.Pid, gone: make(chan struct{})}
	p.pidfd, _ = unix.PidfdOpen(p.pid, 0)
	go func() {
		_ = cmd.Wait() // Wait leaves no zombie
		p.state = cmd.ProcessState
		close(p.gone)
	}()
	_ = its.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		p.kill()
		return nil, nil, fmt.Errorf("connect it: %w", err)
	}
	p.stream = newStream(conn.(*net.UnixConn), newsMax)
	w, err := l.greet(ctx, p, bornMax)
	if err != nil {
		_ = conn.Close()
		return nil, nil, l.stillborn(p, err, lastWords(said, from))
	}
	return p, w, nil
}

// stillborn returns the reason why a keeper ended, or was ended, before its first message.
func (l *Link) stillborn(p *peer, err error, said string) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.kill()
		return fmt.Errorf("it does not answer: %w%s", err, said)
	}
	p.farewell(farewellMax) // the keeper is about to end: wait for its status
	if status, ok := p.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Errorf("%w: %s: %w%s", errKilled, p.state, err, said)
	}
	return fmt.Errorf("%s: %w%s", p.state, err, said)
}

// keeperVars are the variables of this process that its keeper gets. The proxy variables apply to requests
// with the proxy egress.Environment. Proxy addresses can contain a password, so the keeper hides them as the
// server does.
var keeperVars = []string{"PATH", "HOME", "TMPDIR", "GOMAXPROCS", "GODEBUG", "GOCOVERDIR",
	"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"}

// keeperEnv returns the environment of a keeper. Tasks do not inherit this environment: their variables come
// in the greeting.
func keeperEnv(data string) []string {
	env := []string{keeperVar + "=" + data}
	for _, name := range keeperVars {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// lastWords returns the last output of a keeper on its stderr. It leaves out the first from bytes, which were
// there before the keeper started.
func lastWords(f *os.File, from int64) string {
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if info.Size() <= from { // the keeper may have been unable to write
		if _, err := f.WriteString("\n"); err != nil {
			return fmt.Sprintf(" (what it had to say cannot be written: %v)", err)
		}
		return ""
	}
	buf := make([]byte, min(info.Size()-from, 500))
	n, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	lines := strings.Split(strings.TrimSpace(string(buf[:n])), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return " (it said: " + oneLine(last) + ")"
	}
	return ""
}

// kill ends the keeper. The first processes of its attempts die with it. The next keeper kills the remaining
// ones.
func (p *peer) kill() {
	p.mu.Lock()
	if p.pidfd >= 0 {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
	p.mu.Unlock()
	p.farewell(endMax)
}

// farewell waits for the end of the keeper, and kills a keeper that takes too long.
func (p *peer) farewell(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return
	}
	deadline := time.Now().Add(limit)
	for killed := false; ; {
		fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
		n, _ := unix.Poll(fds, 100)
		if n > 0 {
			break
		}
		if time.Now().After(deadline) {
			if killed {
				break
			}
			_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
			killed, deadline = true, time.Now().Add(limit)
		}
	}
	if p.gone != nil {
		<-p.gone
	}
	_ = unix.Close(p.pidfd)
	p.pidfd = -1
}
