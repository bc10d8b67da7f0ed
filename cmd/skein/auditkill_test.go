//go:build linux

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestAuditOfKilledNodes: while callers make changes, a node is killed several times between changes and
// their checkpoint. Afterwards each acknowledged change has exactly one row, and the log agrees with its
// checkpoints.
func TestAuditOfKilledNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rounds, callers = 4, 3
	var made []string
	for round := range rounds {
		p := w.server()
		var mu sync.Mutex
		var wg sync.WaitGroup
		var over atomic.Bool
		enough, before := make(chan struct{}), len(made)
		for caller := range callers {
			wg.Go(func() {
				for n := 0; !over.Load(); n++ {
					name := fmt.Sprintf("c%d-%d-%d", round, caller, n)
					if _, err := p.SetClass(t.Context(), name, api.ClassRequest{CPU: 1}); err != nil {
						return // the node was killed
					}
					mu.Lock()
					if made = append(made, name); len(made)-before == 10 {
						close(enough)
					}
					mu.Unlock()
				}
			})
		}
		<-enough
		p.kill()
		over.Store(true)
		wg.Wait()
	}
	p := w.server()
	rows := map[string]int{}
	p.eventually("all rows have their place in the tree", func() bool {
		clear(rows)
		for cursor := ""; ; {
			page, err := skein.NewAudit(p.Client).List(t.Context(), skein.AuditQuery{Cursor: cursor, Limit: 1000})
			if err != nil {
				return false
			}
			for _, row := range page.Items {
				if row.Index == nil {
					return false
				}
				rows[row.Object]++
			}
			if page.Next == nil {
				break
			}
			cursor = *page.Next
		}
		return len(rows) >= len(made)
	})
	for _, name := range made {
		if n := rows["/classes/"+name]; n != 1 {
			t.Errorf("%d rows of the class %s", n, name)
		}
	}
	w.eventually("the log is as its checkpoints say", func() bool { return w.skein("audit", "verify").code == exitOK })
	p.kill()
	if o := w.skein("audit", "verify"); o.code != exitOK {
		t.Error(o)
	}
}
