package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// clusterRule is a rule about the cluster, as people write it.
type clusterRule struct {
	Name     string `yaml:"name"`
	On       any    `yaml:"on"`
	To       any    `yaml:"to"`
	Severity string `yaml:"severity"`
	Message  string `yaml:"message"`
	Limit    string `yaml:"limit"`
	Escalate any    `yaml:"escalate"`
}

// read returns the rule in the form of the API.
func (r *clusterRule) read() (out api.ClusterAlert, err error) {
	out = api.ClusterAlert{Name: r.Name, Severity: r.Severity, Message: r.Message, Limit: r.Limit}
	if out.On, err = oneOrMore("on", r.On); err != nil {
		return out, err
	}
	if out.To, err = oneOrMore("to", r.To); err != nil || r.Escalate == nil {
		return out, err
	}
	steps, many := r.Escalate.([]any)
	if !many {
		steps = []any{r.Escalate}
	}
	for _, s := range steps {
		step, ok := s.(map[string]any)
		if !ok || len(step) != 2 {
			return out, fmt.Errorf("escalate must have steps such as {after: 30m, to: oncall}")
		}
		after, err := time.ParseDuration(fmt.Sprint(step["after"]))
		if err != nil {
			return out, fmt.Errorf("escalate: the value of after must be a duration such as 30m: %w", err)
		}
		to, err := oneOrMore("escalate: to", step["to"])
		if err != nil {
			return out, err
		}
		out.Escalation = append(out.Escalation, api.EscalationStep{Seconds: after.Seconds(), Channels: to})
	}
	return out, nil
}

// oneOrMore reads a text or a list of texts.
func oneOrMore(key string, v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{v}, nil
	case []any:
		var all []string
		for _, one := range v {
			text, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("%s must be a name or a list of names", key)
			}
			all = append(all, text)
		}
		return all, nil
	}
	return nil, fmt.Errorf("%s must be a name or a list of names", key)
}

// applyClusterAlerts replaces the rules about the cluster by those of a file.
func applyClusterAlerts(ctx context.Context, c *cli, s *session, path string, rules []clusterRule) error {
	req := api.ClusterAlertsRequest{Rules: []api.ClusterAlert{}}
	for i := range rules {
		r, err := rules[i].read()
		if err != nil {
			return &said{errInvalid, fmt.Sprintf("%s: cluster[%d]: %v", path, i, err)}
		}
		req.Rules = append(req.Rules, r)
	}
	is, err := skein.NewAlerts(s.Client).SetCluster(ctx, req)
	if err != nil {
		return err
	}
	c.say("the cluster has %s, version %d", count(len(is.Rules), "alert rule"), is.Version)
	return nil
}

func alertClusterCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "cluster", Short: "List the alert rules about the cluster", Args: cobra.NoArgs,
		Long: `Lists the rules about the cluster, such as a lost node or a disk that is nearly full. skein alert apply FILE
sets them, from the key cluster of the file. Their channels are in the namespace system.`,
		Example: "  skein alert cluster\n  skein alert cluster -o yaml",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			is, err := skein.NewAlerts(s.Client).Cluster(ctx)
			if err != nil {
				return err
			}
			return show(c, is.Rules, func(r api.ClusterAlert) string { return r.Name }, []column[api.ClusterAlert]{
				{head: "RULE", get: func(r api.ClusterAlert) string { return r.Name }},
				{head: "ON", get: func(r api.ClusterAlert) string { return strings.Join(r.On, ",") }},
				{head: "LIMIT", get: func(r api.ClusterAlert) string { return orDash(r.Limit) }},
				{head: "SEVERITY", get: func(r api.ClusterAlert) string { return r.Severity }},
				{head: "TO", get: func(r api.ClusterAlert) string { return strings.Join(r.To, ",") }},
			})
		})),
	}
}
