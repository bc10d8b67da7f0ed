package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"skein.dev/skein/internal/store"
)

const (
	verifyPage = 500
	verifyMax  = 100 // the largest number of violations that Verify returns
)

// Verify checks the invariants of incidents and notices. It may run while a writer works, so it reads an
// incident that seems wrong a second time.
func Verify(ctx context.Context, st store.Alerts) (found []string, err error) {
	open := map[string]store.Incident{}
	for q := (store.IncidentQuery{Over: true, Counting: true, Limit: verifyPage}); ; {
		page, err := st.Incidents(ctx, q)
		if err != nil {
			return found, err
		}
		for i := range page {
			q.Before, q.BeforeID = page[i].Created, page[i].ID
			why, err := verified(ctx, st, &page[i])
			if err == nil && why != "" {
				why, err = again(ctx, st, &page[i])
			}
			if err != nil {
				return found, err
			}
			if rule := fmt.Sprintf("%d %s", page[i].Workflow, page[i].Rule); why == "" && page[i].Ended == 0 {
				if other, twice := open[rule]; twice {
					why = fmt.Sprintf("incident %s of the same rule is not over either", other.ID)
				}
				open[rule] = page[i]
			}
			if why != "" && len(found) < verifyMax {
				found = append(found, fmt.Sprintf("incident %s: %s", page[i].ID, why))
			}
		}
		if len(page) < verifyPage {
			return found, nil
		}
	}
}

// again verifies an incident in its present state.
func again(ctx context.Context, st store.Alerts, n *store.Incident) (string, error) {
	is, err := st.Incident(ctx, n.ID)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil // retention has deleted the incident meanwhile
	}
	if err != nil {
		return "", err
	}
	*n = is
	return verified(ctx, st, n)
}

// verified returns the fault of an incident, or "" if there is none.
func verified(ctx context.Context, st store.Alerts, row *store.Incident) (string, error) {
	n, err := Read(*row)
	if err != nil {
		return err.Error(), nil
	}
	told, err := st.Notices(ctx, row.ID)
	if err != nil {
		return "", err
	}
	d := &n.Detail
	hidden := n.State == store.IncidentCounting || n.State == store.IncidentPassed
	switch {
	case store.IncidentOver(n.State) != (n.Ended != 0):
		return fmt.Sprintf("it is %s, and ended at %d", n.State, n.Ended), nil
	case hidden != (d.OpenedAt == 0) || d.Silenced == nil && hidden != (d.Seq == 0):
		return fmt.Sprintf("it is %s after %d transitions, and opened at %d", n.State, d.Seq, d.OpenedAt), nil
	}
	for seq := int32(1); seq <= d.Seq; seq++ {
		for _, name := range d.channels(seq) {
			if !slices.ContainsFunc(told, func(t store.Notice) bool { return t.Seq == seq && t.Channel == name }) {
				return fmt.Sprintf("transition %d has no notice for channel %s", seq, name), nil
			}
		}
	}
	for i := range told {
		if told[i].Seq > d.Seq && told[i].Created <= n.Modified {
			return fmt.Sprintf("there is a notice of transition %d, and there were %d", told[i].Seq, d.Seq), nil
		}
		if (told[i].State == store.NoticePending) != (told[i].Ended == 0) {
			return fmt.Sprintf("the notice of transition %d for channel %s is %s, and ended at %d", told[i].Seq, told[i].Channel, told[i].State, told[i].Ended), nil
		}
	}
	return "", nil
}
