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

// record is the content of a file.
type record struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// recordMax bounds the bytes that are read of a file.
const recordMax = 4096

// Folder is the folder in which the nodes of this user record themselves; "": this process has no home
// folder.
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

// nameOf is the name of the file of an address. It has no colon, which some systems do not allow.
func nameOf(host, port string) string { return strings.ReplaceAll(host, ":", "-") + "_" + port }

// Write records the token of a node by the URL that the node answers at. The folder and the file are of this
// user only. remove takes the record away, unless another node has the address by then.
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

// WriteFile replaces a file by one that only this user can read. A reader sees the old or the new one.
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

// read returns the record of a file. It ignores a record that another user can read or replace, because such
// a record could send this user's calls to that user's program.
func read(path string) (r record, ok bool) {
	text, err := secretfile.Read(path)
	return r, err == nil && len(text) <= recordMax && json.Unmarshal(text, &r) == nil && r.Token != ""
}

// Loopback reports whether a host is this machine by its loopback address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Find returns the token of the node that this user runs at a loopback URL, and the host and port of it. They
// differ from those of the URL if it says localhost: a program of another user may have the port on another
// loopback address, so a token must go to the recorded address. ok is false if there is no record.
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

// Shown returns the token for a base URL, and the URL that it may be sent to. Without a record these are ""
// and the URL itself.
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
