package joining

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
)

// Answer handles calls for certificates, and passes every other call of a worker to next. It calls issued
// after it has issued a certificate.
func (n *Node) Answer(next http.Handler, issued func()) http.Handler {
	calls := map[string]func(*http.Request, *request) (Grant, error){JoinPath: n.join, RenewPath: n.renew}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := calls[r.URL.Path]
		if call == nil {
			next.ServeHTTP(w, r)
			return
		}
		var in request
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, bytesMax)).Decode(&in)
		if err != nil {
			err = refuse(http.StatusBadRequest, "body: %v", err)
		}
		var out Grant
		if err == nil {
			out, err = call(r, &in)
		}
		if err != nil {
			n.fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // an error means that the caller has gone
		issued()
	})
}

func (n *Node) fail(w http.ResponseWriter, err error) {
	why := &refusal{http.StatusServiceUnavailable, "this node cannot issue certificates now: " + err.Error()}
	if !errors.As(err, &why) {
		n.cfg.Log.Warn("this node cannot issue a certificate now", "code", "certificate_not_issued", "err", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(why.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": why.status, "title": http.StatusText(why.status), "detail": why.text})
}

// join uses up the caller's invitation. It signs the certificate before that, and a repeated call with the
// same key gets another certificate. So a lost answer does not use up the invitation for nothing.
func (n *Node) join(r *http.Request, in *request) (out Grant, err error) {
	invitation, held := auth.Holder(r.Context())
	words := strings.Fields(invitation.Name)
	if !held || invitation.Kind != store.TokenInvite || len(words) < 2 {
		return out, refuse(http.StatusForbidden, "this call needs an invitation: skein worker invite")
	}
	if before, open := strings.CutSuffix(words[1], "*"); !home.Plain(in.Name) || strings.ContainsAny(in.Name, "*/") ||
		in.Name != words[1] && !(open && strings.HasPrefix(in.Name, before) && in.Name != before) {
		return out, refuse(http.StatusForbidden, "the invitation is for the worker %s, and not for %.100q", words[1], in.Name)
	}
	is, hash, err := n.issue(r, in)
	if err != nil {
		return out, err
	}
	ctx := store.WithAudit(r.Context(), &store.Audit{Address: auth.AddressOf(r), Principal: invitation.Name, Kind: invitation.Kind, Verb: "worker.join",
		Action: "join-worker", Object: "/workers/" + in.Name, Detail: "the worker " + in.Name + " has joined"})
	t, err := n.cfg.Tokens.JoinToken(ctx, store.Joining{Invite: invitation.ID, Name: auth.WorkerName(in.Name), Hash: hash, Life: dag.Micros(n.cfg.Authority.Life().Microseconds())})
	switch {
	case errors.Is(err, store.ErrFenced):
		return out, refuse(http.StatusForbidden, "%v; make another one: skein worker invite %s", err, in.Name)
	case errors.Is(err, store.ErrRefused):
		return out, refuse(http.StatusConflict, "%v; end that one first: skein worker revoke %s", err, in.Name)
	case err != nil:
		return out, err
	}
	n.cfg.Log.Info("a worker has joined by an invitation", "code", "worker_joined", "worker", in.Name, "invitation", invitation.Name)
	return n.grant(in.Name, is, &t), nil
}

// renew issues a new certificate for the same key to the holder of a certificate.
func (n *Node) renew(r *http.Request, in *request) (out Grant, err error) {
	proven, ok := auth.ByCertificate(r.Context())
	t, held := auth.Holder(r.Context())
	if !ok || !held || proven.Worker == "" {
		return out, refuse(http.StatusForbidden, "this call needs the certificate of a worker")
	}
	if in.Name != proven.Worker {
		return out, refuse(http.StatusForbidden, "the certificate is of the worker %s, and the request is for %.100q", proven.Worker, in.Name)
	}
	is, hash, err := n.issue(r, in)
	if err != nil {
		return out, err
	}
	if string(hash) != string(proven.Key) {
		return out, refuse(http.StatusForbidden, "the request is for another key than that of the certificate; a new key needs an invitation: skein worker invite %s", in.Name)
	}
	t, err = n.cfg.Tokens.RenewToken(r.Context(), t.ID, dag.Micros(n.cfg.Authority.Life().Microseconds()))
	if errors.Is(err, store.ErrFenced) {
		return out, refuse(http.StatusForbidden, "%v; let the worker join again: skein worker invite %s", err, in.Name)
	}
	if err != nil {
		return out, err
	}
	return n.grant(in.Name, is, &t), nil
}

// issue signs the certificate for a request. It also returns the hash of the key.
func (n *Node) issue(r *http.Request, in *request) (is authority.Issued, hash []byte, err error) {
	if r.TLS == nil {
		return is, nil, refuse(http.StatusBadRequest, "certificates need TLS between worker and node: give the nodes a certificate (--tls-cert), or the worker a token: skein token create --kind worker")
	}
	key, name, err := authority.Request(in.Request)
	if err != nil {
		return is, nil, refuse(http.StatusBadRequest, "%v", err)
	}
	if name != in.Name {
		return is, nil, refuse(http.StatusForbidden, "the request for a certificate is for %.100q, and not for %.100q", name, in.Name)
	}
	if hash, err = authority.KeyHash(key); err != nil {
		return is, nil, refuse(http.StatusBadRequest, "%v", err)
	}
	// Another node may have just made the authority.
	if is, err = n.cfg.Authority.Worker(key, name); errors.Is(err, authority.ErrNone) {
		if err = n.cfg.Authority.Load(r.Context()); err == nil {
			is, err = n.cfg.Authority.Worker(key, name)
		}
	}
	return is, hash, err
}

func (n *Node) grant(name string, is authority.Issued, t *store.Token) Grant {
	return Grant{Name: name, Groups: strings.Fields(t.Groups), Namespaces: t.Bound(), Slots: t.Slots, Chain: is.Chain, Roots: n.cfg.Authority.Trusted(), Expires: is.Expires}
}
