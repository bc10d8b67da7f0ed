package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/mod/sumdb/note"

	"skein.dev/skein/internal/audit"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/store"
)

// auditLate is the age from which an audit row without an index in the audit log causes a warning.
const auditLate = time.Minute

// checkAudit compares the audit log with the checkpoint that this node signed last.
func checkAudit(ctx context.Context, cfg *config.Config, db store.Store) Check {
	c := Check{Name: "audit log", State: Good}
	failed := func(err error) Check { return Check{Name: c.Name, State: Warning, Found: err.Error()} }
	info, err := db.Info(ctx)
	if err != nil {
		return failed(err)
	}
	// Read the checkpoint before the tree, because a node may append to the tree meanwhile.
	last, found, err := lastCheckpoint(cfg, audit.NewOrigin(info.Cluster))
	if err != nil {
		return failed(err)
	}
	tree, err := db.AuditTree(ctx)
	if err != nil {
		return failed(err)
	}
	fresh, err := db.AuditFresh(ctx, 1)
	if err != nil {
		return failed(err)
	}
	now, err := db.Clock(ctx)
	if err != nil {
		return failed(err)
	}
	c.Found = fmt.Sprintf("%d rows", tree.Size)
	switch {
	case found:
		c.Found += fmt.Sprintf(", %d of them in the last checkpoint, %s", last.Size, last.At.UTC().Format(time.RFC3339))
	case tree.Size > 0:
		c.Found += ", no checkpoint in " + cfg.AuditCheckpoints()
	}
	switch {
	case found && last.Size > tree.Size && last.Era >= tree.Era:
		c.State, c.Found = Bad, c.Found+", but the checkpoint has more: rows are missing"
		c.Remedy = "run skein audit verify, and compare the log with a copy"
	case len(fresh) > 0 && time.Duration(now-fresh[0].At)*time.Microsecond > auditLate:
		c.State = Warning
		c.Found += "; the log is behind: a row of " + fresh[0].At.Time().UTC().Format(time.RFC3339) + " has no place yet"
		c.Remedy = "start a node if none runs; otherwise look for audit_behind in the log of the node"
	}
	return c
}

// lastCheckpoint reads the checkpoint that this node signed last. found is false if the node has no
// checkpoint or no key yet.
func lastCheckpoint(cfg *config.Config, origin string) (last audit.Checkpoint, found bool, err error) {
	key, err := audit.PublicKey(cfg.AuditKey() + audit.PublicSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return last, false, nil
	}
	if err != nil {
		return last, false, err
	}
	all, _, err := audit.Checkpoints(cfg.AuditCheckpoints(), note.VerifierList(key))
	if errors.Is(err, fs.ErrNotExist) {
		return last, false, nil
	}
	for i := range all {
		if all[i].Origin == origin {
			last, found = all[i], true
		}
	}
	return last, found, err
}
