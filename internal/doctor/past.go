package doctor

import (
	"context"
	"fmt"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/past"
	"skein.dev/skein/internal/store"
)

// checkPast reports whether the database has gone back to an earlier state, as far as this node knows.
func checkPast(ctx context.Context, cfg *config.Config, st store.Store) Check {
	c := Check{Name: "history", State: Good}
	marks, err := st.Marks(ctx)
	if err != nil {
		return Check{Name: "history", State: Warning, Found: err.Error()}
	}
	known, there, err := past.Known(cfg.PastFile())
	era := store.EraOf(marks)
	c.Found = fmt.Sprintf("era %d", era)
	switch {
	case era >= dag.EraMax:
		c.State, c.Found = Bad, fmt.Sprintf("era %d is the last one of this database: after the next failover it takes no writes", era)
		c.Remedy = "apply the workflows to a new database before that (docs/database.md, \"The last eras\")"
	case era >= store.ErasMany:
		c.State, c.Found = Warning, fmt.Sprintf("era %d of %d: each failover takes one, and after the last one the database takes no writes", era, dag.EraMax)
		c.Remedy = "plan to apply the workflows to a new database (docs/database.md, \"The last eras\")"
	case err != nil:
		c.State, c.Found = Warning, fmt.Sprintf("%s; %s cannot be read: %v", c.Found, cfg.PastFile(), err)
		c.Remedy = "remove the file; if the database was recovered to an earlier state since this node ran: skein db recovered"
	case len(known) > 0:
		r := known[0]
		c.State = Warning
		c.Found += fmt.Sprintf("; %s: the database went back to an earlier state when era %d began at %s: %s", past.Code, r.Era, r.At.Format(time.RFC3339), r.Why)
		c.Remedy = "look for what was lost (the guide, \"When the database goes back\"); with a synchronous standby nothing is lost"
	case !there:
		c.Found += "; this node has not written yet how far the database has come: if it was recovered to an earlier state, only skein db recovered can tell"
	}
	return c
}
