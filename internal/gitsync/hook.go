package gitsync

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
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

// ErrUnsigned says that a call does not prove that its sender has the secret of a source, or that there
// is no such source, or that it has no webhook.
var ErrUnsigned = errors.New("the call is not signed with the secret of a git source")

// The forms of the proofs.
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
		if secret, err = y.cfg.Needs.Secret(ctx, namespace, spec.Hook); err != nil {
			y.tellHook(&g, err)
			secret = ""
		}
	}
	secret = strings.TrimRight(secret, "\r\n")
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
	t.next, t.spec = y.now(), g.Version
	y.mu.Unlock()
	select {
	case y.wake <- struct{}{}:
	default: // a round is coming anyway
	}
	return true, form, nil
}

// signedBy returns the form in which a call proves the knowledge of the secret; "": it proves nothing. It
// takes the same time if there is no secret.
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

// refOf returns the full name of the branch or tag that a push has changed; "": the call names none.
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

// tellHook logs that the secret of a webhook cannot be read, at most once per hour and source.
func (y *Syncer) tellHook(g *store.GitSource, err error) {
	y.mu.Lock()
	t := y.turnOf(g)
	quiet := y.now().Sub(t.told) < hookToldEvery
	if !quiet {
		t.told = y.now()
	}
	y.mu.Unlock()
	if !quiet {
		y.cfg.Log.Warn("calls to the webhook of a git source are refused, because its secret cannot be read", "code", "git_hook_secret",
			"source", fmt.Sprintf("%s/%s", g.Namespace, g.Name), "err", err)
	}
}
