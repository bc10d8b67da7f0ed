// Package gitsync applies the workflows of git repositories to namespaces. The node that owns the shard of a
// git source reads the repository, and applies all workflows of a new commit in one transaction, or none. A
// row of the store has the seen and the applied commit.
//
//   - spec.go: the settings of a source, and its state.
//   - repo.go: runs the program git, in a folder of its own, with limits.
//   - relay.go: connects git to the network.
//   - read.go: the workflows of a commit.
//   - look.go: one look at a repository; syncer.go: the times of looks; hook.go: looks after a webhook.
//
// Nothing in a repository is executed on the node: there is no work tree, no hook, no filter, no submodule
// and no credential helper. Files are read from an archive in memory.
package gitsync

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"skein.dev/skein/internal/workflow"
)

// Spec is the description of a git source, as a person has set it.
type Spec struct {
	URL    string            `json:"url"`              // https, http, ssh or file; or USER@HOST:PATH
	Branch string            `json:"branch,omitempty"` // "" means main if Tag is "", too
	Tag    string            `json:"tag,omitempty"`
	Folder string            `json:"folder,omitempty"` // "" means the whole repository
	Every  workflow.Duration `json:"every,omitempty"`  // 0 means everyDefault
	// User and Password are for http and https. Key and KnownHosts are for ssh. Password and Key are names of
	// secrets.
	User       string `json:"user,omitempty"`
	Password   string `json:"password_secret,omitempty"`
	Key        string `json:"key_secret,omitempty"`
	KnownHosts string `json:"known_hosts,omitempty"`
	// Hook is the name of the secret with which webhooks of the server of the repository are signed. It is "" if
	// there is no webhook.
	Hook string `json:"hook_secret,omitempty"`
	// Removed is the treatment of workflows whose files were removed. "" means Pause.
	Removed string `json:"removed,omitempty"`
	// Adopt lets the source take over existing workflows of other origin.
	Adopt bool `json:"adopt,omitempty"`
}

// Values of Removed.
const (
	Keep   = "keep"
	Pause  = "pause"
	Delete = "delete"
)

// Bounds of a Spec.
const (
	SpecMax      = 64 << 10
	everyDefault = workflow.Duration(time.Minute)
	everyMin     = workflow.Duration(10 * time.Second)
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// refPattern matches the names of branches and tags that git accepts, without rare characters.
	refPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+-]{0,199}$`)
	scpPattern = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*)@([A-Za-z0-9][A-Za-z0-9.-]{0,254}):([^:].*)$`)
)

// IsName reports whether a text can be the name of a git source.
func IsName(name string) bool { return namePattern.MatchString(name) }

// Parse reads and checks a Spec. Its errors name the mistake and the remedy.
func Parse(data []byte) (Spec, error) {
	var s Spec
	if len(data) > SpecMax {
		return s, fmt.Errorf("the git source has %d bytes, the limit is %d", len(data), SpecMax)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("the git source cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return s, errors.New("there is text after the end of the git source")
	}
	return s, s.check()
}

// FieldError is a mistake in one value of a source. Key is the name of the value in REST.
type FieldError struct{ Key, Message string }

func (e *FieldError) Error() string { return e.Message }

func wrong(key, format string, args ...any) error {
	return &FieldError{Key: key, Message: fmt.Sprintf(format, args...)}
}

func (s *Spec) check() error {
	at, err := s.place()
	ref := "branch"
	if s.Tag != "" {
		ref = "tag"
	}
	switch {
	case err != nil:
		return wrong("url", "%s", err)
	case s.Branch != "" && s.Tag != "":
		return wrong("tag", "branch and tag exclude each other: keep one")
	case !isRef(s.refName()):
		return wrong(ref, "%.100q is not the name of a branch or tag", s.Branch+s.Tag)
	case s.Folder != "" && (path.IsAbs(s.Folder) || path.Clean(s.Folder) != s.Folder || s.Folder == "." || strings.HasPrefix(s.Folder, "..") || strings.ContainsAny(s.Folder, "\\\x00\n")):
		return wrong("folder", "folder: %.200q is not a path inside of the repository, such as flows", s.Folder)
	case s.Every != 0 && s.Every < everyMin:
		return wrong("every", "every: %s is too often; write at least %s, and let a webhook sync at once", s.Every, everyMin)
	case s.Removed != "" && s.Removed != Keep && s.Removed != Pause && s.Removed != Delete:
		return wrong("removed", "removed: %.40q is none of %s, %s, %s", s.Removed, Keep, Pause, Delete)
	}
	web, shell := at.scheme == "https" || at.scheme == "http", at.scheme == "ssh"
	switch {
	case !web && (s.User != "" || s.Password != ""):
		return wrong("login", "user and password_secret are for https and http")
	case (s.User == "") != (s.Password == ""):
		key := "login"
		if s.Password == "" {
			key = "password_secret"
		}
		return wrong(key, "user and password_secret belong together; for a token, the user is often git or x-access-token")
	case strings.ContainsAny(s.User, ":\r\n"):
		return wrong("login", "user must not contain a colon or a line end")
	case !shell && (s.Key != "" || s.KnownHosts != ""):
		return wrong("key_secret", "key_secret and known_hosts are for ssh")
	case shell && s.Key == "":
		return wrong("key_secret", "key_secret is missing: name a secret with a private key that may read the repository")
	case shell && strings.TrimSpace(s.KnownHosts) == "":
		return wrong("known_hosts", "known_hosts is missing: run ssh-keyscan HOST, compare the keys with those that the operator of the server has published, and send the lines")
	case strings.ContainsRune(s.KnownHosts, 0):
		return wrong("known_hosts", "known_hosts contains a NUL byte: paste the lines of ssh-keyscan")
	}
	return nil
}

// place is the address of a repository.
type place struct {
	scheme string // https, http, ssh or file
	host   string // including the port
	user   string // only for ssh
	path   string // only for file
}

// place reads the address.
func (s *Spec) place() (place, error) {
	if m := scpPattern.FindStringSubmatch(s.URL); m != nil {
		return place{scheme: "ssh", host: m[2] + ":22", user: m[1]}, nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || strings.ContainsAny(s.URL, " \t\r\n\x00\\'\"") || len(s.URL) > 2000 {
		return place{}, fmt.Errorf("url: %.200q is not the address of a repository", s.URL)
	}
	p := place{scheme: u.Scheme, host: u.Host}
	port := map[string]string{"https": "443", "http": "80", "ssh": "22"}[u.Scheme]
	switch {
	case u.Scheme != "" && !strings.HasPrefix(s.URL, u.Scheme+":"):
		return p, fmt.Errorf("url: write %s: in lower case, not %.200q", u.Scheme, s.URL)
	case u.Scheme == "file":
		if p.path = u.Path; u.Host != "" || !path.IsAbs(u.Path) || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
			return p, fmt.Errorf("url: %.200q must be file:// with an absolute path", s.URL)
		}
		return p, nil
	case port == "":
		return p, fmt.Errorf("url: %.200q begins with none of https://, ssh://, http://, file://; USER@HOST:PATH is also possible", s.URL)
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || u.RawQuery != "" || u.Fragment != "":
		return p, fmt.Errorf("url: %.200q has no host, or a query or a fragment", s.URL)
	}
	if u.Port() == "" {
		p.host += ":" + port
	}
	if u.User != nil {
		if _, password := u.User.Password(); password || u.Scheme != "ssh" {
			return p, errors.New("url has a user or a password: give user, and password_secret with the name of a secret")
		}
		p.user = u.User.Username()
	}
	if u.Scheme == "ssh" && !sshUser.MatchString(p.user) {
		return p, fmt.Errorf("url: write ssh://USER@HOST/PATH, where USER is often git, not %.200q", s.URL)
	}
	return p, nil
}

var sshUser = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// Local reports whether the repository is a folder of the node.
func (s *Spec) Local() bool { return strings.HasPrefix(s.URL, "file:") }

// refName returns the name of the branch or tag.
func (s *Spec) refName() string {
	if s.Branch+s.Tag == "" {
		return "main"
	}
	return s.Branch + s.Tag
}

// ref returns the full name of the branch or tag, such as refs/heads/main.
func (s *Spec) ref() string {
	if s.Tag != "" {
		return "refs/tags/" + s.Tag
	}
	return "refs/heads/" + s.refName()
}

func isRef(name string) bool {
	return refPattern.MatchString(name) && !strings.Contains(name, "..") && !strings.Contains(name, "//") && !strings.HasSuffix(name, "/") && !strings.HasSuffix(name, ".lock") && !strings.HasSuffix(name, ".")
}

// every returns the time between two looks.
func (s *Spec) every() time.Duration {
	if s.Every == 0 {
		return time.Duration(everyDefault)
	}
	return time.Duration(s.Every)
}

// State is the result of all looks at a repository.
type State struct {
	Spec int64  `json:"spec"`           // the version of the Spec at the last look
	Seen string `json:"seen,omitempty"` // the commit of the branch at the last look
	// Applied is the commit whose workflows were applied; "" if there is none.
	Applied   string    `json:"applied,omitempty"`
	AppliedAt time.Time `json:"applied_at,omitzero"`
	Author    string    `json:"author,omitempty"`  // author of the commit Applied
	Subject   string    `json:"subject,omitempty"` // first line of the message of Applied
	LookedAt  time.Time `json:"looked_at,omitzero"`
	// Failing is the reason why Seen was not applied, or why the repository could not be read. It is nil if
	// there is no fault.
	Failing   *Failing   `json:"failing,omitempty"`
	Workflows []Workflow `json:"workflows,omitempty"` // workflows of the source, by name
}

// Failing is the reason why a look failed.
type Failing struct {
	Since time.Time `json:"since"`
	// Commit is the refused commit; "" if the repository could not be read.
	Commit string          `json:"commit,omitempty"`
	Why    string          `json:"why"`
	Faults workflow.Errors `json:"faults,omitempty"` // up to faultsMax
	More   int             `json:"more,omitempty"`   // number of faults that are left out
}

// faultsMax bounds the faults in a State.
const faultsMax = 20

// Workflow is a workflow of a source.
type Workflow struct {
	Name string `json:"name"`
	File string `json:"file"`
	Gone bool   `json:"gone,omitempty"` // the file was removed
	// Paused is true if the removal of the file has paused the workflow. The workflow is then resumed when
	// the file exists again.
	Paused bool `json:"paused,omitempty"`
}

// ReadState reads a stored state. If the state cannot be read, it returns the zero State.
func ReadState(data []byte) State {
	var s State
	if len(data) > 0 && json.Unmarshal(data, &s) != nil {
		return State{}
	}
	return s
}
