package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"skein.dev/skein/sdk/shared/secretfile"
)

// record is the content of the file in which a node records its token.
type record struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// recordMax bounds the number of bytes that are read from a file.
const recordMax = 4096

// Folder is the folder in which the nodes of this user record themselves. It is "" if this process has no
// home folder.
func Folder() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "skein", "local")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "state", "skein", "local")
}

// nameOf returns the name of the file for an address. The name has no colon, because some systems do not
// allow colons.
func nameOf(host, port string) string { return strings.ReplaceAll(host, ":", "-") + "_" + port }

// Write records the token of a node under the URL at which the node answers. Only this user can read the
// folder and the file. remove deletes the record, unless another node has recorded itself under the same URL
// by then.
func Write(address, token string) (remove func(), err error) {
	u, err := url.Parse(address)
	dir := Folder()
	switch {
	case err != nil:
		return nil, fmt.Errorf("address of this node: %w", err)
	case dir == "":
		return nil, errors.New("this process has no home folder; set XDG_STATE_HOME")
	}
	text, err := json.Marshal(record{address, token})
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, nameOf(u.Hostname(), portOf(u)))
	if err := WriteFile(file, append(text, '\n')); err != nil {
		return nil, err
	}
	return func() {
		if r, ok := read(file); ok && r.Token == token {
			_ = os.Remove(file) // the token in the file is no longer valid
		}
	}, nil
}

// WriteFile replaces a file with one that only this user can read. A concurrent reader sees the old or the
// new file as a whole.
func WriteFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*") // the file has the mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// read returns the record in a file. It ignores a record that another user can read or replace, because that
// user could direct this user's calls to another program.
func read(path string) (r record, ok bool) {
	text, err := secretfile.Read(path)
	return r, err == nil && len(text) <= recordMax && json.Unmarshal(text, &r) == nil && r.Token != ""
}

// Loopback reports whether a host is a loopback address of this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Find returns the token of the node that this user runs at a loopback URL, and the recorded host and port of
// the node. If the URL has the name localhost, they differ from it: a program of another user may have the
// same port on another loopback address, so the token must go to the recorded address. ok is false if there
// is no record.
func Find(u *url.URL) (token, host string, ok bool) {
	dir := Folder()
	if dir == "" || !Loopback(u.Hostname()) {
		return "", "", false
	}
	hosts := []string{u.Hostname()}
	if u.Hostname() == "localhost" {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, h := range hosts {
		at := net.JoinHostPort(h, portOf(u))
		if r, ok := read(filepath.Join(dir, nameOf(h, portOf(u)))); ok && r.Address == u.Scheme+"://"+at {
			return r.Token, at, true
		}
	}
	return "", "", false
}

// Shown returns the token for a base URL, and the URL to which the token may be sent. Without a record it
// returns "" and the unchanged URL.
func Shown(address string) (token, at string) {
	u, err := url.Parse(address)
	if err != nil {
		return "", address
	}
	token, host, _ := Find(u)
	if token != "" && u.Scheme == "http" { // with TLS, the certificate proves the identity of the server
		u.Host = host
		address = u.String()
	}
	return token, address
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
