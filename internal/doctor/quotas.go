package doctor

import (
	"context"
	"fmt"
	"strings"

	"skein.dev/skein/internal/store"
)

// fullTold bounds the quotas that doctor names.
const fullTold = 10

// checkQuotas names the quotas of namespaces that are used up. Nodes refuse any further use of these.
func checkQuotas(ctx context.Context, db store.Store) []Check {
	rows, err := db.NamespaceList(ctx)
	if err != nil {
		return []Check{{Name: "quotas", State: Warning, Found: err.Error()}}
	}
	if len(rows) == 0 {
		return nil
	}
	full, err := fullQuotas(ctx, db, rows)
	switch {
	case err != nil:
		return []Check{{Name: "quotas", State: Warning, Found: err.Error()}}
	case len(full) == 0:
		return []Check{{Name: "quotas", State: Good, Found: fmt.Sprintf("%d namespaces have quotas, and none is used up", len(rows))}}
	}
	found := strings.Join(full[:min(len(full), fullTold)], "; ")
	if more := len(full) - fullTold; more > 0 {
		found += fmt.Sprintf("; and %d more", more)
	}
	return []Check{{Name: "quotas", State: Warning, Found: "used up: " + found,
		Remedy: "skein namespace show NS; then wait until runs have ended or retention has deleted old ones, revoke tokens, or raise the quota: skein namespace set"}}
}

// fullQuotas lists the quotas that are used up.
func fullQuotas(ctx context.Context, db store.Store, rows []store.Namespace) (full []string, err error) {
	now, err := db.Clock(ctx)
	if err != nil {
		return nil, err
	}
	tokens, err := db.TokenList(ctx)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		n := &rows[i]
		uses, err := db.NamespaceUses(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		stocks, err := db.NamespaceStocks(ctx, n.Name)
		if err != nil {
			return nil, err
		}
		used := map[string]int64{store.QuotaTokens: store.TokensOf(tokens, n.Name, now)}
		used[store.QuotaRuns], used[store.QuotaRunsPerHour] = store.Sum(uses, store.QuotaHour(now))
		used[store.QuotaLogsPerDay] = store.Logged(uses, store.QuotaDay(now))
		for k := range stocks {
			used[store.QuotaStoredBytes], used[store.QuotaVersions], used[store.QuotaTriggers] = stocks[k].Bytes, stocks[k].Versions, stocks[k].Triggers
		}
		for quota, bound := range n.Each {
			if is, counted := used[quota]; counted && *bound > 0 && is >= *bound {
				full = append(full, fmt.Sprintf("%s of namespace %s (%d of %d)", quota, n.Name, is, *bound))
			}
		}
	}
	return full, nil
}
