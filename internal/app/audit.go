package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/server"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// AuditConfig are the settings of the audit log.
type AuditConfig struct {
	KeyFile     string        // signs the checkpoints; "": in the data folder
	Checkpoints string        // the file of checkpoints; "": in the data folder
	Age         time.Duration // after which rows are deleted; 0: never
}

func auditSettings() []setting {
	return []setting{
		{name: "audit_key_file", def: text(""), set: func(c *Config, v string) error { return setPath(&c.Audit.KeyFile, v) }},
		{name: "audit_checkpoints", def: text(""), set: func(c *Config, v string) error { return setPath(&c.Audit.Checkpoints, v) }},
		{name: "retention_audit", def: text("400d"), set: func(c *Config, v string) error {
			d, err := workflow.ParseDuration(v)
			c.Audit.Age = time.Duration(d)
			return err
		}},
	}
}

// AuditKey returns the file of the key that signs checkpoints. The public key is next to it.
func (c *Config) AuditKey() string {
	if c.Audit.KeyFile != "" {
		return c.Audit.KeyFile
	}
	return filepath.Join(c.Data, "audit", "key")
}

// AuditCheckpoints returns the file of checkpoints.
func (c *Config) AuditCheckpoints() string {
	if c.Audit.Checkpoints != "" {
		return c.Audit.Checkpoints
	}
	return filepath.Join(c.Data, "audit", "checkpoints")
}

// newAuditor makes the keeper of the audit log. A command signs nothing: the next server does.
func newAuditor(n *Node, cluster string) (*audit.Keeper, error) {
	c := audit.Config{Store: n.store, Origin: audit.NewOrigin(cluster), Keep: func() time.Duration { return n.keeping().Audit.Age }, Log: n.log}
	if !n.cfg.ByHand {
		signer, err := audit.Key(n.cfg.AuditKey())
		var public note.Verifier
		if err == nil {
			public, err = audit.PublicKey(n.cfg.AuditKey() + audit.PublicSuffix)
		}
		if err != nil {
			return nil, &SettingError{Name: "audit_key_file", Origin: n.cfg.origin("audit_key_file"), Err: err}
		}
		c.Signer, c.File = signer, audit.NewFile(n.cfg.AuditCheckpoints(), public)
	}
	k, err := audit.NewKeeper(c)
	if err != nil {
		return nil, fmt.Errorf("the audit log: %w", err)
	}
	return k, nil
}

// keepAudit lets the keeper of the audit log work. A command leaves its rows to the next server.
func keepAudit(n *Node) (stop func()) {
	if n.cfg.ByHand {
		return func() {}
	}
	return n.beside(n.auditor.Run)
}

// countRefusals returns a function that counts the calls that the gate refuses.
func countRefusals(k *audit.Keeper) func(*http.Request, access.Verb, *store.Token) {
	return func(r *http.Request, v access.Verb, by *store.Token) { k.Refuse(server.RefusedCall(r, v, by)) }
}
