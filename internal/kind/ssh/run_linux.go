package ssh

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/kind"
)

// dialVar is set when ssh starts this program as its ProxyCommand. The program then connects to the address
// in the variable.
const dialVar = "SKEIN_SSH_DIAL"

// Missing implements kind.Needy.
func (Kind) Missing(json.RawMessage) error {
	if _, err := exec.LookPath("ssh"); err != nil {
		return errors.New("there is no program ssh: install the package openssh-client")
	}
	return nil
}

// Main implements kind.Kind.
func (Kind) Main(ctx context.Context, env *kind.Env) int {
	if address := os.Getenv(dialVar); address != "" {
		return relay(ctx, env, address)
	}
	code, err := run(ctx, env)
	if err != nil {
		fmt.Fprintf(env.Stderr, "skein: ssh: %v\n", err)
	}
	return code
}

func run(ctx context.Context, env *kind.Env) (int, error) {
	w, to, err := read(&env.Input)
	if err != nil {
		return kind.Permanent, err
	}
	key, err := inMemory(strings.TrimRight(to.Key, "\r\n") + "\n")
	if err != nil {
		return kind.Away, err
	}
	defer key.Close()
	hosts, err := inMemory(strings.TrimRight(to.KnownHosts, "\r\n") + "\n")
	if err != nil {
		return kind.Away, err
	}
	defer hosts.Close()
	self, err := os.Executable()
	if err != nil {
		return kind.Away, err
	}
	nonce := rand.Text()
	cmd := exec.Command("ssh", arguments(&to, self, seen(key), seen(hosts), nonce)...)
	out, said := &gate{to: env.Stdout, line: []byte("begin-" + nonce + "\n")}, &tail{to: env.Stderr}
	cmd.Stdout, cmd.Stderr = out, said
	input, err := cmd.StdinPipe()
	if err != nil {
		return kind.Away, err
	}
	if err := cmd.Start(); err != nil {
		return kind.Permanent, err
	}
	ended := make(chan struct{})
	go func() { // when the attempt ends, so does the input, and then the other machine ends the command
		defer input.Close()
		if _, err := io.WriteString(input, script(&w, os.Getenv)+"\nend-"+nonce+"\n"); err != nil {
			return // ssh has ended, and has printed the reason
		}
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}()
	err = cmd.Wait()
	close(ended)
	if lost := out.end(); err == nil {
		err = lost
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return kind.Failed, err
	}
	code := cmd.ProcessState.ExitCode()
	switch {
	case !out.begun:
		return unbegun(said.kept, code), nil
	case code < 0:
		return kind.Failed, errors.New("ssh was killed; the other machine ends the command")
	case code == kind.Kept: // a code with a meaning for Skein, but not for the command
		return kind.Failed, fmt.Errorf("the command ended with exit code %d, which is a failure here and counts as exit code %d", code, kind.Failed)
	}
	return code, nil
}

// arguments returns the arguments of ssh. ssh reads no settings file, asks no questions, uses one key, and
// refuses machines whose host key is not in the given file.
func arguments(to *target, self, key, hosts, nonce string) []string {
	args := []string{"-F", "none", "-T", "-l", to.User}
	if to.Port != 0 {
		args = append(args, "-p", strconv.Itoa(to.Port))
	}
	for _, option := range []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UserKnownHostsFile=" + hosts, "GlobalKnownHostsFile=/dev/null", "UpdateHostKeys=no", "CheckHostIP=no",
		"IdentityFile=" + key, "IdentitiesOnly=yes", "IdentityAgent=none", "PreferredAuthentications=publickey", "ClearAllForwardings=yes", "ForwardAgent=no",
		"PermitLocalCommand=no", "ControlMaster=no", "ControlPath=none", "EscapeChar=none", "ConnectTimeout=30", "ServerAliveInterval=5", "ServerAliveCountMax=3",
		"LogLevel=ERROR", "ProxyCommand=env " + dialVar + "=[%h]:%p " + strings.ReplaceAll(quoted(self), "%", "%%") + " kind " + Name,
	} {
		args = append(args, "-o", option)
	}
	return append(args, "--", to.Host, "exec sh -c "+quoted(remote)+" sh "+nonce+" "+strconv.Itoa(graceSeconds))
}

// inMemory returns a file in memory. Only processes of this user can open it, and only while this process
// lives.
func inMemory(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("skein", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memory for the key: %w", err)
	}
	f := os.NewFile(uintptr(fd), "skein")
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o600)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// seen returns the path at which other processes can open a file of this process.
func seen(f *os.File) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()) }

// relay connects the input and output of this process to an address, if the egress rules allow the address.
func relay(ctx context.Context, env *kind.Env, address string) int {
	var rules egress.Rules
	if raw := env.Input.Egress; len(raw) > 0 && json.Unmarshal(raw, &rules) != nil {
		fmt.Fprintln(env.Stderr, "skein: the rules of egress cannot be read")
		return kind.Permanent
	}
	dial, err := egress.Dialer(rules)
	if err != nil {
		fmt.Fprintf(env.Stderr, "%s: %v\n", dialRefused, err)
		return kind.Permanent
	}
	conn, err := dial(ctx, "tcp", plain(address))
	if err != nil {
		if refused, ok := egress.Refused(err); ok {
			fmt.Fprintf(env.Stderr, "%s: %v\n", dialRefused, refused)
			return kind.Permanent
		}
		fmt.Fprintf(env.Stderr, "skein: %v\n", err)
		return kind.Away
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, os.Stdin) // the end of the input, or an error, closes this direction
		if half, ok := conn.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	}()
	if _, err := io.Copy(env.Stdout, conn); err != nil {
		return kind.Failed
	}
	return kind.Done
}

// plain removes the brackets around a name or an IPv4 address.
func plain(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return net.JoinHostPort(host, port)
}
