package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// The calls by which workers get their certificates. They are beside the protocol of workers.
const (
	joinPath  = home.Prefix + "Join"
	renewPath = home.Prefix + "Renew"
	// joinBytesMax bounds a request or an answer of these calls.
	joinBytesMax = 64 << 10
)

// joining is a request for a certificate.
type joining struct {
	Name    string `json:"name"`
	Request []byte `json:"request"` // PKCS 10, DER
}

// joined is a certificate with the bounds of its worker.
type joined struct {
	Name       string    `json:"name"`
	Groups     []string  `json:"groups,omitempty"`
	Namespaces []string  `json:"namespaces,omitempty"`
	Slots      int32     `json:"slots,omitempty"`
	Chain      [][]byte  `json:"chain"` // DER, the worker's certificate first
	Roots      [][]byte  `json:"roots"` // DER: by these the worker knows the nodes
	Expires    time.Time `json:"expires"`
}

// refusedJoin is a refusal of a call for a certificate.
type refusedJoin struct {
	status int
	text   string
}

func (r *refusedJoin) Error() string { return r.text }

func noJoin(status int, format string, args ...any) error {
	return &refusedJoin{status, fmt.Sprintf(format, args...)}
}

// certificates answers the calls for certificates, and leaves every other call of a worker to next.
func certificates(n *Node, next http.Handler) http.Handler {
	calls := map[string]func(*Node, *http.Request, *joining) (joined, error){joinPath: join, renewPath: renewed}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := calls[r.URL.Path]
		if call == nil {
			next.ServeHTTP(w, r)
			return
		}
		var in joining
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, joinBytesMax)).Decode(&in)
		if err != nil {
			err = noJoin(http.StatusBadRequest, "body: %v", err)
		}
		var out joined
		if err == nil {
			out, err = call(n, r, &in)
		}
		if err != nil {
			failJoin(n, w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out) // the caller may have gone
		n.auditor.Wake()
	})
}

func failJoin(n *Node, w http.ResponseWriter, err error) {
	refusal := &refusedJoin{http.StatusServiceUnavailable, "this node cannot issue certificates now: " + err.Error()}
	if !errors.As(err, &refusal) {
		n.log.Warn("no certificate could be issued", "code", "certificate_not_issued", "err", err)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(refusal.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": refusal.status, "title": http.StatusText(refusal.status), "detail": refusal.text})
}

// join uses the caller's invitation. The certificate is made before the invitation is used, and a repeated
// call with the same key gets another certificate, so no answer that is lost uses the invitation up.
func join(n *Node, r *http.Request, in *joining) (out joined, err error) {
	invitation, held := auth.Holder(r.Context())
	words := strings.Fields(invitation.Name)
	if !held || invitation.Kind != store.TokenInvite || len(words) < 2 {
		return out, noJoin(http.StatusForbidden, "this call needs an invitation: skein worker invite")
	}
	if before, open := strings.CutSuffix(words[1], "*"); !home.Plain(in.Name) || strings.ContainsAny(in.Name, "*/") ||
		in.Name != words[1] && !(open && strings.HasPrefix(in.Name, before) && in.Name != before) {
		return out, noJoin(http.StatusForbidden, "the invitation is for the worker %s, and not for %.100q", words[1], in.Name)
	}
	is, hash, err := issue(n, r, in)
	if err != nil {
		return out, err
	}
	ctx := store.WithAudit(r.Context(), &store.Audit{Address: auth.AddressOf(r), Principal: invitation.Name, Kind: invitation.Kind, Verb: "worker.join",
		Action: "join-worker", Object: "/workers/" + in.Name, Detail: "the worker " + in.Name + " has joined"})
	t, err := n.store.JoinToken(ctx, store.Joining{Invite: invitation.ID, Name: auth.WorkerName(in.Name), Hash: hash, Life: dag.Micros(n.authority.Life().Microseconds())})
	switch {
	case errors.Is(err, store.ErrFenced):
		return out, noJoin(http.StatusForbidden, "%v; make another one: skein worker invite %s", err, in.Name)
	case errors.Is(err, store.ErrRefused):
		return out, noJoin(http.StatusConflict, "%v; end that one first: skein worker revoke %s", err, in.Name)
	case err != nil:
		return out, err
	}
	n.log.Info("a worker has joined by an invitation", "code", "worker_joined", "worker", in.Name, "invitation", invitation.Name)
	return given(n, in.Name, is, &t), nil
}

// renewed gives the holder of a certificate its next one, for the same key.
func renewed(n *Node, r *http.Request, in *joining) (out joined, err error) {
	proven, ok := auth.ByCertificate(r.Context())
	t, held := auth.Holder(r.Context())
	if !ok || !held || proven.Worker == "" {
		return out, noJoin(http.StatusForbidden, "this call needs the certificate of a worker")
	}
	if in.Name != proven.Worker {
		return out, noJoin(http.StatusForbidden, "the certificate is of the worker %s, and the request is for %.100q", proven.Worker, in.Name)
	}
	is, hash, err := issue(n, r, in)
	if err != nil {
		return out, err
	}
	if string(hash) != string(proven.Key) {
		return out, noJoin(http.StatusForbidden, "the request is for another key than that of the certificate; a new key needs an invitation: skein worker invite %s", in.Name)
	}
	t, err = n.store.RenewToken(r.Context(), t.ID, dag.Micros(n.authority.Life().Microseconds()))
	if errors.Is(err, store.ErrFenced) {
		return out, noJoin(http.StatusForbidden, "%v; let the worker join again: skein worker invite %s", err, in.Name)
	}
	if err != nil {
		return out, err
	}
	return given(n, in.Name, is, &t), nil
}

// issue makes the certificate of a request. It returns the hash of the key, too.
func issue(n *Node, r *http.Request, in *joining) (is authority.Issued, hash []byte, err error) {
	if r.TLS == nil {
		return is, nil, noJoin(http.StatusBadRequest, "certificates need TLS between worker and node: give the nodes a certificate (--tls-cert), or the worker a token: skein token create --kind worker")
	}
	key, name, err := authority.Request(in.Request)
	if err != nil {
		return is, nil, noJoin(http.StatusBadRequest, "%v", err)
	}
	if name != in.Name {
		return is, nil, noJoin(http.StatusForbidden, "the request for a certificate is for %.100q, and not for %.100q", name, in.Name)
	}
	if hash, err = authority.KeyHash(key); err != nil {
		return is, nil, noJoin(http.StatusBadRequest, "%v", err)
	}
	if is, err = n.authority.Worker(key, name); errors.Is(err, authority.ErrNone) { // another node has made it a moment ago
		if err = n.authority.Load(r.Context()); err == nil {
			is, err = n.authority.Worker(key, name)
		}
	}
	return is, hash, err
}

func given(n *Node, name string, is authority.Issued, t *store.Token) joined {
	return joined{Name: name, Groups: strings.Fields(t.Groups), Namespaces: t.Bound(), Slots: t.Slots, Chain: is.Chain, Roots: n.authority.Trusted(), Expires: is.Expires}
}

// problemOf returns the reason in the answer of a node.
func problemOf(status int, body []byte) string {
	var p api.Problem
	if json.Unmarshal(body, &p) == nil && p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("%s: %.200s", http.StatusText(status), body)
}
