// Package localtoken has the token that a node makes at each start for the programs of its user.
//
// Loopback proves nothing about a caller, because every user of the machine reaches it. So a node that only
// this machine can reach makes a token and writes it into two files that only its user can read:
//
//   - DATA/access/local.token, for programs that know the data folder.
//   - a record by the node's address (package sdk/go/shared/local), for programs that know only that.
//
// The token is valid until the node ends. Then the node removes both files. A node that was killed leaves
// them; the token in them is worthless, and the next start replaces them. A node that other machines can
// reach has none: its callers show tokens of the database.
package localtoken

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/sdk/shared/local"
)

// Token is the token of one start of a node.
type Token struct {
	secret string // "" if there is none
	hash   []byte
	file   string
	forget func() // removes the record
}

// File returns the path at which a node writes its token.
func File(data string) string { return filepath.Join(data, "access", "local.token") }

// New makes a token and writes it into the data folder, where it replaces an earlier one. If exposed is set,
// New makes no token, and only removes an earlier one.
func New(data string, exposed bool) (*Token, error) {
	t := &Token{file: File(data), forget: func() {}}
	if exposed { // a node on loopback that was killed may have left a token
		_ = os.Remove(t.file)
		return t, nil
	}
	t.secret, t.hash = auth.NewLocal()
	err := os.MkdirAll(filepath.Dir(t.file), 0o700)
	if err == nil {
		err = local.WriteFile(t.file, []byte(t.secret+"\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: write the local token: %w", datadir.ErrUnusable, err)
	}
	return t, nil
}

// Secret returns the text that programs show. It returns "" if there is no token.
func (t *Token) Secret() string { return t.secret }

// Hash returns the hash of the secret, or nil.
func (t *Token) Hash() []byte { return t.hash }

// Record stores the place of the token, for programs that know only the address of the node. If that fails,
// it writes a log line of the given level.
func (t *Token) Record(address string, level slog.Level, log *slog.Logger) {
	if t.secret == "" {
		return
	}
	forget, err := local.Write(address, t.secret)
	if err != nil {
		log.Log(context.Background(), level, "programs that know only the address of this node do not find its token; they need --token-file",
			"code", "local_record_unwritten", "token_file", t.file, "err", err)
		return
	}
	t.forget = forget
}

// Remove removes both files. A nil Token has none.
func (t *Token) Remove() error {
	if t == nil || t.secret == "" {
		return nil
	}
	t.forget()
	if err := os.Remove(t.file); !errors.Is(err, fs.ErrNotExist) { // the data folder may be gone
		return err
	}
	return nil
}

// ErrNone says that no node of this machine has a local token for this user.
var ErrNone = errors.New("no node of this user is found on this machine")

// Of returns the token of the node at a URL, which this user runs on this machine: the one of the data
// folder, if the node holds that, or the one that the node has recorded.
func Of(data, address string) (string, error) {
	if h, err := datadir.Look(data); err == nil && h != nil && h.Address == address && h.Address != "" {
		text, err := secret.File(File(data))
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		return "", fmt.Errorf("the local token of the node that holds %s: %w", data, err)
	}
	if token, _ := local.Shown(address); token != "" {
		return token, nil
	}
	return "", ErrNone
}

// Recorded reports whether the node at a URL has recorded its token for this user.
func Recorded(address string) bool {
	token, _ := local.Shown(address)
	return token != ""
}
