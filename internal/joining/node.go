package joining

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
)

// Tokens stores invitations and certificates; see store.Tokens.
type Tokens interface {
	JoinToken(ctx context.Context, j store.Joining) (store.Token, error)
	RenewToken(ctx context.Context, id int64, life dag.Micros) (store.Token, error)
}

// Config describes a node. All fields but Cluster are required.
type Config struct {
	Name      string
	Authority *authority.Authority
	Tokens    Tokens
	Cluster   bool // the server has, or can have, other nodes
	Log       *slog.Logger
}

// Node is the node's side of joining. It issues certificates to workers, and verifies those of workers and
// nodes. It has no state: the authority and the store hold all of it.
type Node struct{ cfg Config }

var _ auth.Certificates = (*Node)(nil)

// NewNode returns the node's side of joining. It reads nothing yet.
func NewNode(cfg Config) *Node { return &Node{cfg} }

// Run reads the roots regularly until ctx ends. In a cluster, it first makes the authority, so that nodes can
// identify each other by certificates. If the cluster has no key for secrets, it continues with tokens.
func (n *Node) Run(ctx context.Context) {
	if n.cfg.Cluster {
		if err := n.cfg.Authority.Make(made(ctx, n.cfg.Name), "node "+n.cfg.Name); err != nil {
			n.cfg.Log.Info("nodes identify themselves by tokens, because the certificate authority cannot be created", "code", "authority_not_made", "err", err)
		}
	}
	n.cfg.Authority.Run(ctx)
}

// Known implements auth.Certificates.
func (n *Node) Known(is *x509.Certificate) bool { return n.cfg.Authority.Known(is) }

// Verify implements auth.Certificates.
func (n *Node) Verify(ctx context.Context, chain []*x509.Certificate) (auth.Proven, string, error) {
	is, err := n.cfg.Authority.Verify(ctx, chain)
	var why *authority.Refusal
	if errors.As(err, &why) {
		return auth.Proven{}, why.Error(), nil
	}
	return auth.Proven{Worker: is.Worker, Node: is.Node, Key: is.Key}, "", err
}

// Proofs tells a home node what the certificates of its callers prove. certified reports whether a worker has
// a valid certificate.
func Proofs(certified func(ctx context.Context, worker string) (bool, error)) home.Proofs {
	return home.Proofs{Needed: certified, Of: func(ctx context.Context) (home.Proof, bool) {
		is, ok := auth.ByCertificate(ctx)
		t, held := auth.Holder(ctx)
		if !ok || !held || is.Worker == "" || t.Kind != store.TokenCertificate {
			return home.Proof{}, false
		}
		return home.Proof{Worker: is.Worker, Groups: strings.Fields(t.Groups), Slots: t.Slots, Namespaces: t.Bound()}, true
	}}
}

// Listen returns settings for a listener. Once there is an internal authority, the listener requests
// certificates of that authority from callers. To callers that ask for the name authority.ServerName it shows
// a certificate of the authority, so that workers need to know no other. To all others it shows the
// operator's certificate.
func (n *Node) Listen(base *tls.Config) *tls.Config {
	a, out := n.cfg.Authority, base.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		pool := a.Pool(hello.Context(), hello.ServerName == authority.ServerName)
		if pool == nil {
			return nil, nil // there is no authority yet
		}
		own := base.Clone()
		// The listener neither requires nor verifies a certificate. auth.Gate does that, and its refusal says
		// why.
		own.ClientAuth, own.ClientCAs = tls.RequestClientCert, pool
		if hello.ServerName == authority.ServerName {
			is, err := a.Node(n.cfg.Name)
			if err != nil {
				return nil, err
			}
			if is != nil { // nil if the authority has been deleted since the pool was read
				own.GetCertificate, own.Certificates = nil, []tls.Certificate{*is}
			}
		}
		return own, nil
	}
	return out
}

// made records the creation of the authority in the audit log.
func made(ctx context.Context, node string) context.Context {
	return store.WithAudit(ctx, &store.Audit{Principal: node, Kind: "node", Verb: "key.rotate", Action: "make-authority", Object: "/authority",
		Detail: "the internal certificate authority is made"})
}
