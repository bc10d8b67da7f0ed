package connection

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"

	"skein.dev/skein/internal/secret"
)

// SSH is a machine with an SSH server.
type SSH struct {
	Host string `json:"host"`
	Port int    `json:"port,omitempty"` // 0 means 22
	User string `json:"user"`
	// Key is the private key of the user, without a passphrase.
	Key *secret.Text `json:"key"`
	// KnownHosts are the lines of a file known_hosts that have the keys of the machine.
	KnownHosts string `json:"known_hosts"`
}

const sshPort = 22

var (
	sshHost = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,254}$`)
	sshUser = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
)

func (s *SSH) check() error {
	switch {
	case !sshHost.MatchString(s.Host):
		return fmt.Errorf("host: %.100q is neither the name nor the address of a machine", s.Host)
	case s.Port < 0 || s.Port > 65535:
		return fmt.Errorf("port: %d is not a port", s.Port)
	case !sshUser.MatchString(s.User):
		return fmt.Errorf("user: %.100q is not the name of a user", s.User)
	case s.Key == nil:
		return errors.New("key is missing: write {secret: NAME} of a secret with the private key of the user")
	case strings.TrimSpace(s.KnownHosts) == "":
		return errors.New("known_hosts is missing: run ssh-keyscan HOST, compare the keys with those on the machine, and give the lines")
	case strings.ContainsRune(s.KnownHosts, 0):
		return errors.New("known_hosts contains a NUL byte: paste the lines of ssh-keyscan")
	}
	return isSecret("key", s.Key)
}

// address returns the address to dial.
func (s *SSH) address() string {
	port := s.Port
	if port == 0 {
		port = sshPort
	}
	return net.JoinHostPort(s.Host, strconv.Itoa(port))
}

// bannerMax bounds the bytes that a server may send before its version.
const bannerMax = 8 << 10

// use reads the version of the server. The keys are checked by the task.
func (s *SSH) use(ctx context.Context, m *Means) (string, error) {
	conn, err := m.Dial(ctx, "tcp", s.address())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	at, _ := ctx.Deadline() // Config.Test sets it
	if err := conn.SetDeadline(at); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(io.LimitReader(conn, bannerMax))
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "SSH-") {
			return fmt.Sprintf("%.100q answers; the keys of the machine and of the user are checked by the task", text), nil
		}
	}
	return "", errors.Join(errors.New("the server that answers is not an SSH server"), lines.Err())
}
