package config

import (
	"path/filepath"
	"slices"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/workflow"
)

// Audit are the settings of the audit log.
type Audit struct {
	KeyFile     string        // signs the checkpoints; "" means in the data folder
	Checkpoints string        // the file of checkpoints; "" means in the data folder
	Age         time.Duration // the age after which rows are deleted; 0 means never
	reads       []string      // the namespaces whose reads are recorded; "*" among them means all
}

// Reads reports whether reads of a namespace are recorded, or with "" those of any namespace.
func (a *Audit) Reads(namespace string) bool {
	return len(a.reads) > 0 && namespace == "" || slices.Contains(a.reads, "*") || slices.Contains(a.reads, namespace)
}

// setReads sets the namespaces whose reads are recorded.
func (a *Audit) setReads(v string) error {
	a.reads = nil
	for _, name := range commaList(v) {
		if err := access.CheckNamespace(name); err != nil {
			return err
		}
		a.reads = append(a.reads, name)
	}
	return nil
}

func auditSettings() []setting {
	return []setting{
		{name: "audit_key_file", def: text(""), set: func(c *Config, v string) error { return setPath(&c.Audit.KeyFile, v) }},
		{name: "audit_checkpoints", def: text(""), set: func(c *Config, v string) error { return setPath(&c.Audit.Checkpoints, v) }},
		{name: "audit_reads", def: text(""), set: func(c *Config, v string) error { return c.Audit.setReads(v) }},
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

// AuditCheckpoints returns the path of the file of checkpoints.
func (c *Config) AuditCheckpoints() string {
	if c.Audit.Checkpoints != "" {
		return c.Audit.Checkpoints
	}
	return filepath.Join(c.Data, "audit", "checkpoints")
}
