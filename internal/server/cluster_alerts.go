package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// clusterAlerts reads the alert rules about the cluster.
func (a alerting) clusterAlerts(ctx context.Context, _ *struct{}) (*jsonOut[api.ClusterAlerts], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	row, err := clusterRulesOf(ctx, st)
	if err != nil {
		return nil, err
	}
	return clusterAlertsOf(&row)
}

// clusterRulesOf reads the row of the rules about the cluster. Its version is 0 if there is none.
func clusterRulesOf(ctx context.Context, st store.Alerts) (store.AlertRules, error) {
	all, err := st.AlertRules(ctx)
	if err != nil {
		return store.AlertRules{}, unread(err)
	}
	for i := range all {
		if all[i].Namespace == store.SystemNamespace {
			return all[i], nil
		}
	}
	return store.AlertRules{Namespace: store.SystemNamespace}, nil
}

func clusterAlertsOf(row *store.AlertRules) (*jsonOut[api.ClusterAlerts], error) {
	out := api.ClusterAlerts{Rules: []api.ClusterAlert{}, Version: row.Version, User: textOrNull(row.By), ModifiedAt: instantOrNull(row.Modified)}
	if row.Version == 0 {
		return &jsonOut[api.ClusterAlerts]{Body: out}, nil
	}
	is, err := alert.ReadClusterRules(row.Data)
	if err != nil {
		return nil, err
	}
	for i := range is.Rules {
		r := &is.Rules[i]
		c := api.ClusterAlert{Name: r.Name, To: r.To, Severity: r.Severity, Message: r.Message}
		for _, e := range r.On {
			c.On = append(c.On, string(e))
		}
		if len(r.On) == 1 {
			c.Limit = limitText(r.On[0], r.Bound(r.On[0]))
		}
		for _, rung := range r.Escalate {
			c.Escalation = append(c.Escalation, api.EscalationStep{Seconds: float64(rung.After) / 1e6, Channels: rung.To})
		}
		out.Rules = append(out.Rules, c)
	}
	return &jsonOut[api.ClusterAlerts]{Body: out}, nil
}

// limitText returns a limit as people write it, or "" for an event without a limit.
func limitText(e alert.Event, bound int64) string {
	switch {
	case bound == 0:
		return ""
	case alert.Percent(e):
		return strconv.FormatFloat(float64(bound)/100, 'f', -1, 64) + "%"
	}
	return workflow.Duration(time.Duration(bound) * time.Microsecond).String()
}

// limitOf reads a limit.
func limitOf(e alert.Event, text string) (int64, error) {
	if alert.Percent(e) {
		share, percent := strings.CutSuffix(text, "%")
		n, err := strconv.ParseFloat(share, 64)
		if !percent || err != nil || !(n > 0 && n < 100) {
			return 0, fmt.Errorf("limit %.30q: write a percentage between 0 and 100, such as 10%%", text)
		}
		return max(int64(n*100), 1), nil
	}
	d, err := workflow.ParseDuration(text)
	if err != nil || time.Duration(d) < time.Second {
		return 0, fmt.Errorf("limit %.30q: write a duration of at least a second, such as 30s or 14d", text)
	}
	return time.Duration(d).Microseconds(), nil
}

type setClusterAlertsIn struct {
	Body api.ClusterAlertsRequest
}

// setClusterAlerts replaces the alert rules about the cluster. An empty list removes them.
func (a alerting) setClusterAlerts(ctx context.Context, in *setClusterAlertsIn) (*jsonOut[api.ClusterAlerts], error) {
	st, err := a.store()
	if err != nil {
		return nil, err
	}
	rules, err := clusterRulesIn(in.Body.Rules)
	if err != nil {
		return nil, err
	}
	if eras, ok := st.(store.Eras); ok { // a loss before now is already known, so it opens no alert
		marks, err := eras.Marks(ctx)
		if err != nil {
			return nil, unread(err)
		}
		rules.Floor = store.FloorOf(marks)
	}
	data, err := json.Marshal(rules)
	if err != nil {
		return nil, err
	}
	for range setTries {
		row, err := clusterRulesOf(ctx, st)
		if err != nil {
			return nil, err
		}
		row.Version, row.Data, row.By = row.Version+1, data, userOf(ctx)
		row, err = st.PutAlertRules(ctx, row)
		switch {
		case err == nil:
			return clusterAlertsOf(&row)
		case !errors.Is(err, store.ErrFenced):
			return nil, unread(err)
		}
	}
	return nil, fmt.Errorf("%w: the rules were changed at the same time; try again", errkind.ErrConflict)
}

// clusterRulesIn reads and checks the rules of a request.
func clusterRulesIn(all []api.ClusterAlert) (*alert.ClusterRules, error) {
	rules := &alert.ClusterRules{Rules: []alert.ClusterRule{}}
	for i := range all {
		c := &all[i]
		r := alert.ClusterRule{Name: c.Name, To: c.To, Severity: c.Severity, Message: c.Message}
		for _, e := range c.On {
			r.On = append(r.On, alert.Event(e))
		}
		for _, step := range c.Escalation {
			r.Escalate = append(r.Escalate, alert.Rung{After: dag.Micros(step.Seconds * 1e6), To: step.Channels})
		}
		for _, name := range append(append([]string{}, c.To...), rungsOf(c)...) {
			if !channelName.MatchString(name) {
				return nil, invalid("cluster[%d]: %.100q cannot be the name of a channel: it is 1 to 100 of A-Z a-z 0-9 _ . -", i, name)
			}
		}
		if c.Limit != "" && len(r.On) == 1 {
			n, err := limitOf(r.On[0], c.Limit)
			if err != nil {
				return nil, invalid("cluster[%d]: %s", i, err)
			}
			r.Limit = n
		} else if c.Limit != "" {
			return nil, invalid("cluster[%d]: limit is for a rule with one event; give that event a rule of its own", i)
		}
		rules.Rules = append(rules.Rules, r)
	}
	if err := rules.Check(); err != nil {
		return nil, invalid("%s", err)
	}
	return rules, nil
}

// rungsOf returns the channels of all steps of escalation.
func rungsOf(c *api.ClusterAlert) (all []string) {
	for _, step := range c.Escalation {
		all = append(all, step.Channels...)
	}
	return all
}
