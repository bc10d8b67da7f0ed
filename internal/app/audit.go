package app

import (
	"fmt"
	"net/http"
	"time"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
)

// newAuditor makes the keeper of the audit log. For a short-lived command, the keeper signs nothing: the next
// server does.
func newAuditor(n *Node, cluster string) (*audit.Keeper, error) {
	c := audit.Config{Store: n.store, Origin: audit.NewOrigin(cluster), Keep: func() time.Duration { return n.keeping().Audit.Age }, Reads: n.cfg.Audit.Reads, Log: n.log}
	if !n.cfg.ByHand {
		signer, err := audit.Key(n.cfg.AuditKey())
		var public note.Verifier
		if err == nil {
			public, err = audit.PublicKey(n.cfg.AuditKey() + audit.PublicSuffix)
		}
		if err != nil {
			return nil, n.cfg.Wrong("audit_key_file", err)
		}
		c.Signer, c.File = signer, audit.NewFile(n.cfg.AuditCheckpoints(), public)
	}
	k, err := audit.NewKeeper(c)
	if err != nil {
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return k, nil
}

// keepAudit starts the keeper of the audit log, and makes it record the actions of the certificate authority.
// A short-lived command does not call it: the next server processes the rows that the command wrote.
func keepAudit(n *Node) (stop func()) {
	if n.cfg.ByHand {
		return func() {}
	}
	stopAudit, stopAuthority := n.beside(n.auditor.Run), func() {}
	if n.tls != nil { // a node without TLS needs no roots
		stopAuthority = n.beside(n.joining.Run)
	}
	return func() {
		stopAuthority()
		stopAudit()
	}
}

// countRefusals returns a function that counts the calls that the gate refuses.
func countRefusals(k *audit.Keeper) func(*http.Request, access.Verb, *store.Token) {
	return func(r *http.Request, v access.Verb, by *store.Token) { k.Refuse(server.RefusedCall(r, v, by)) }
}
