package gitsync

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
)

// A server of repositories may call a webhook of a source after each push. The call proves that its sender
// has the secret of the source. It only makes the next look due at once, so a copy of a call does no harm.

// HookBytesMax bounds the body of a call, in bytes.
const HookBytesMax = 2 << 20

// hookToldEvery is the pause between two log lines about the secret of one source.
const hookToldEvery = time.Hour

// ErrUnsigned says that a call does not prove that its sender has the secret of a source, or that there is no
// such source, or that the source has no webhook.
var ErrUnsigned = errors.New("the call is not signed with the secret of a git source")

// The forms in which a call proves that its sender has the secret: the headers that hold the proof.
const (
	FormHub    = "hub"    // GitHub, Gitea and Forgejo: X-Hub-Signature-256. Bitbucket: X-Hub-Signature
	FormGitLab = "gitlab" // X-Gitlab-Token
)

// Hook makes a look at a repository due at once, if the call is genuine and concerns the branch or tag
// of the source. It returns *errkind.Elsewhere if another node owns the shard of the source, and
// ErrUnsigned.
func (y *Syncer) Hook(ctx context.Context, namespace, name string, header http.Header, body []byte) (looks bool, form string, err error) {
	g, err := y.cfg.Store.GitSourceOf(ctx, namespace, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, "", err
	}
	spec, secret := Spec{}, ""
	if err == nil {
		spec, err = Parse(g.Spec)
	}
	if err == nil && spec.Hook != "" {
		secret = y.hookSecret(ctx, &g, spec.Hook)
	}
	if form = signedBy(secret, header, body); form == "" || secret == "" {
		return false, "", ErrUnsigned
	}
	if !y.cfg.Owns(g.Shard) {
		return false, form, &errkind.Elsewhere{Shard: g.Shard}
	}
	if ref := refOf(header, body); ref != "" && ref != spec.ref() {
		return false, form, nil
	}
	y.mu.Lock()
	t := y.turnOf(&g)
	t.next, t.spec, t.made = y.now(), g.Version, g.Created
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default: // a wake-up is already waiting
	}
	return true, form, nil
}

// hookKept is how long the secret of a webhook is kept. So strangers cannot make this node read it for
// each of their calls.
const hookKept = 5 * time.Second

// hookSecret returns the secret with which the webhooks of a source are signed, or "" if it cannot be read.
func (y *Syncer) hookSecret(ctx context.Context, g *store.GitSource, name string) string {
	y.mu.Lock()
	h := &y.turnOf(g).hook
	y.mu.Unlock()
	h.mu.Lock() // other calls wait for the one that reads
	defer h.mu.Unlock()
	if h.name == name && y.now().Sub(h.read) < hookKept {
		return h.secret
	}
	secret, err := y.cfg.Needs.Secret(ctx, g.Namespace, name)
	if ctx.Err() != nil {
		return ""
	}
	if err != nil && y.now().Sub(h.told) >= hookToldEvery {
		h.told = y.now()
		y.cfg.Log.Warn("calls to the webhook of a git source are refused, because its secret cannot be read", "code", "git_hook_secret",
			"source", g.Namespace+"/"+g.Name, "err", err)
	}
	if err != nil {
		secret = ""
	}
	h.name, h.secret, h.read = name, strings.TrimRight(secret, "\r\n"), y.now()
	return h.secret
}

// hookState is the state of the webhook of a source.
type hookState struct {
	mu     sync.Mutex // protects the following fields
	name   string     // name of the secret
	secret string
	read   time.Time
	told   time.Time // the last log line
}

// signedBy returns the form in which a call proves the knowledge of the secret, or "" if the call proves
// nothing. It takes the same time if there is no secret.
func signedBy(secret string, header http.Header, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write(body)
	want := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	for _, name := range []string{"X-Hub-Signature-256", "X-Hub-Signature"} {
		if subtle.ConstantTimeCompare([]byte(header.Get(name)), []byte(want)) == 1 {
			return FormHub
		}
	}
	got, need := sha256.Sum256([]byte(header.Get("X-Gitlab-Token"))), sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(got[:], need[:]) == 1 {
		return FormGitLab
	}
	return ""
}

// refOf returns the full name of the branch or tag that a push has changed, or "" if the call names none.
func refOf(header http.Header, body []byte) string {
	if strings.HasPrefix(header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return ""
		}
		body = []byte(form.Get("payload"))
	}
	var push struct {
		Ref string `json:"ref"`
	}
	if json.Unmarshal(body, &push) != nil {
		return ""
	}
	return push.Ref
}
