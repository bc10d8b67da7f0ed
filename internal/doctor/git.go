package doctor

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"skein.dev/skein/internal/gitsync"
	"skein.dev/skein/internal/store"
)

// checkGit checks that the program git is installed, and that the newest commit of each git source is
// applied. Without git sources it returns no check.
func checkGit(ctx context.Context, db store.GitSources) []Check {
	all, err := db.GitSourceList(ctx, "", "", store.GitSourcesMax)
	if err != nil {
		return []Check{{Name: "git sources", State: Warning, Found: err.Error()}}
	}
	if len(all) == 0 {
		return nil
	}
	c := Check{Name: "git sources", State: Good, Found: fmt.Sprintf("%d, their newest commits are in force", len(all))}
	if _, err := exec.LookPath("git"); err != nil {
		c.State, c.Found, c.Remedy = Bad, "there is no program git", "install the package git on every node"
		return []Check{c}
	}
	for i := range all {
		f := gitsync.ReadState(all[i].State).Failing
		if f == nil {
			continue
		}
		c.State = Warning
		c.Found = fmt.Sprintf("%s/%s fails since %s: %s", all[i].Namespace, all[i].Name, f.Since.UTC().Format(time.RFC3339), f.Why)
		if len(f.Faults) > 0 {
			c.Found += ": " + f.Faults[0].Error()
		}
		c.Remedy = "skein git list shows all faults; skein git sync " + all[i].Namespace + "/" + all[i].Name + " tries again at once"
		break
	}
	return []Check{c}
}
