package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"skein.dev/skein/sdk/shared/secretfile"
)

// Session is the session that this user's commands use for calls to a server.
type Session struct {
	Address string    `json:"address"`
	Cookie  string    `json:"cookie"` // the name of the cookie
	Secret  string    `json:"secret"`
	User    string    `json:"user"`
	Ends    time.Time `json:"ends"` // latest end of the session; an unused session ends earlier
}

// Header returns the cookie that shows the session to its server.
func (s *Session) Header() *http.Cookie { return &http.Cookie{Name: s.Cookie, Value: s.Secret} }

// ErrNoHome means that there is no folder for the sessions of this user.
var ErrNoHome = errors.New("this process has no home folder; set XDG_STATE_HOME")

// sessionFile returns the file of a server's session. The name contains scheme, host, port and base path, so
// a session is sent only to the server that made it.
func sessionFile(address string) (file, origin string, err error) {
	u, err := url.Parse(address)
	dir := Folder()
	switch {
	case err != nil:
		return "", "", err
	case dir == "":
		return "", "", ErrNoHome
	case u.Hostname() == "" || strings.ContainsAny(u.Host, `/\`) || u.Scheme != "http" && u.Scheme != "https":
		return "", "", fmt.Errorf("%q is not a server address", address)
	}
	host := strings.ToLower(u.Hostname())
	name := nameOf(host, portOf(u))
	if base := strings.TrimRight(u.EscapedPath(), "/"); base != "" {
		name += "_" + url.PathEscape(base)
	}
	return filepath.Join(filepath.Dir(dir), "sessions", u.Scheme+"_"+name), u.Scheme + "://" + name, nil
}

// SaveSession stores a session for the commands of this user.
func SaveSession(s Session) error {
	file, _, err := sessionFile(s.Address)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return WriteFile(file, append(text, '\n'))
}

// SessionAt returns the session of a server. ok is false if there is none. It ignores a file that other users
// can read or replace.
func SessionAt(address string) (s Session, ok bool) {
	file, origin, err := sessionFile(address)
	if err != nil {
		return s, false
	}
	text, err := secretfile.Read(file)
	if err != nil || len(text) > recordMax || json.Unmarshal(text, &s) != nil || s.Secret == "" || s.Cookie == "" {
		return Session{}, false
	}
	if _, of, err := sessionFile(s.Address); err != nil || of != origin {
		return Session{}, false
	}
	return s, true
}

// ForgetSession removes the session of a server from this machine.
func ForgetSession(address string) error {
	file, _, err := sessionFile(address)
	if err == nil {
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return err
}
