package app

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
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/secret"
	"skein.dev/skein/sdk/shared/local"
)

// warnOpen logs at each start that the node requires no token.
func warnOpen(cfg *config.Config, log *slog.Logger) {
	if cfg.TokenFree() {
		log.Warn("every user of this machine can run commands as the user of this node; the next version has no loopback: open",
			"code", "loopback_open", "listen", cfg.Listen, "remedy", "remove the setting loopback: commands, workers and Go clients of your user find the token by themselves")
	}
}

// ownToken is the token of one start of a node, for the programs of its user. A node that other machines can
// reach has none: its callers show tokens of the database.
type ownToken struct {
	secret string
	hash   []byte
	file   string
	forget func() // takes the record away
}

// localTokenFile is where a node writes its token.
func localTokenFile(data string) string { return filepath.Join(data, "access", "local.token") }

// newOwnToken makes the token and writes it into the data folder, in place of an earlier one.
func newOwnToken(cfg *config.Config) (*ownToken, error) {
	o := &ownToken{file: localTokenFile(cfg.Data), forget: func() {}}
	if cfg.Exposed() { // a node on loopback that was killed may have left a record
		_ = os.Remove(o.file)
		return o, nil
	}
	o.secret, o.hash = auth.NewLocal()
	err := os.MkdirAll(filepath.Dir(o.file), 0o700)
	if err == nil {
		err = local.WriteFile(o.file, []byte(o.secret+"\n"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: write the local token: %w", datadir.ErrUnusable, err)
	}
	return o, nil
}

// record tells programs that know only the address where the token is. Commands find the node of a data
// folder by that folder, so a command that is a node needs no record.
func (o *ownToken) record(cfg *config.Config, address string, log *slog.Logger) {
	if o.secret == "" || cfg.ByHand {
		return
	}
	forget, err := local.Write(address, o.secret)
	if err != nil {
		level := slog.LevelWarn
		if cfg.LoopbackOpen {
			level = slog.LevelInfo
		}
		log.Log(context.Background(), level, "programs that know only the address of this node do not find its token; they need --token-file",
			"code", "local_record_unwritten", "token_file", o.file, "err", err)
		return
	}
	o.forget = forget
}

// remove removes both files.
func (o *ownToken) remove() error {
	if o == nil || o.secret == "" {
		return nil
	}
	o.forget()
	if err := os.Remove(o.file); !errors.Is(err, fs.ErrNotExist) { // the data folder may be gone
		return err
	}
	return nil
}

// announce publishes the node's address for other processes, and its token for those of the same user.
func announce(n *Node) error {
	warnOpen(n.cfg, n.log)
	n.own.record(n.cfg, n.URL(), n.log)
	return n.lock.Announce(n.URL())
}

// ErrNoLocalToken says that no node of this machine has a local token for this user.
var ErrNoLocalToken = errors.New("no node of this user is found on this machine")

// LocalToken returns the token of the node at a URL, which this user runs on this machine: the one of the
// data folder, if the node holds that, or the one that the node has recorded.
func LocalToken(data, address string) (string, error) {
	if h, err := datadir.Look(data); err == nil && h != nil && h.Address == address && h.Address != "" {
		text, err := secret.File(localTokenFile(data))
		if err == nil {
			return strings.TrimSpace(string(text)), nil
		}
		return "", fmt.Errorf("the local token of the node that holds %s: %w", data, err)
	}
	if token, _ := local.Shown(address); token != "" {
		return token, nil
	}
	return "", ErrNoLocalToken
}

// RecordedToken reports whether the node at a URL has recorded its token for this user.
func RecordedToken(address string) bool {
	token, _ := local.Shown(address)
	return token != ""
}

// SignInAddress is the address at which the page of a server takes a code and signs in. A browser sends the
// part behind the # to no server.
func SignInAddress(server, code string) string {
	return strings.TrimRight(server, "/") + "/#code=" + code
}

// FirstAddress is the address at which the page of a node is signed in, once; "": the node has no page, or
// its callers show tokens of the database.
func FirstAddress(n *Node) string {
	if n.cfg.NoUI || n.own.secret == "" {
		return ""
	}
	return SignInAddress(n.URL(), n.sessions.FirstCode())
}
