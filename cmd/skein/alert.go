package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	yaml "github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func alertCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "alert", Short: "Show alerts, and manage channels and silences",
		Long: `Shows alerts and manages channels. The rules under alerts in workflow files open alerts. A rule names channels.
A channel says how people are notified: by a webhook, Slack, mail, a program or the log.`,
		Example: "  skein alert apply channels.yaml\n  skein alert test shop/ops\n  skein alert list\n  skein alert ack 0199…",
	}
	needsVerb(cmd)
	cmd.AddCommand(alertListCmd(c), alertGetCmd(c), alertChangeCmd(c, false), alertChangeCmd(c, true),
		alertClusterCmd(c), alertSilenceCmd(c), alertSilencesCmd(c), alertUnsilenceCmd(c),
		alertApplyCmd(c), alertChannelsCmd(c), alertDeleteChannelCmd(c), alertTestCmd(c))
	return cmd
}

func alertID(a api.Alert) string { return a.ID }

// alertOf returns the text that names the subject of an alert, such as its workflow.
func alertOf(a api.Alert) string {
	switch {
	case a.Workflow != "" && a.Subject != nil:
		return a.Namespace + "/" + a.Workflow + " (" + *a.Subject + ")"
	case a.Workflow != "":
		return a.Namespace + "/" + a.Workflow
	case a.Subject != nil:
		return "cluster: " + *a.Subject
	}
	return "cluster"
}

// alertWhat returns the text of the last event of an alert.
func alertWhat(a api.Alert) string {
	what := a.Event
	if a.Task != nil {
		what += " " + *a.Task
	}
	if a.Count > 1 {
		what += " ×" + strconv.FormatInt(a.Count, 10)
	}
	if a.Reason != nil {
		what += ": " + *a.Reason
	}
	return what
}

func alertTable(c *cli, all []api.Alert) error {
	return show(c, all, alertID, []column[api.Alert]{
		{head: "ALERT", get: alertID},
		{head: "STATE", get: func(a api.Alert) string { return a.State }},
		{head: "SEVERITY", get: func(a api.Alert) string { return a.Severity }},
		{head: "ABOUT", get: alertOf},
		{head: "RULE", get: func(a api.Alert) string { return a.Rule }},
		{head: "SINCE", get: func(a api.Alert) string { return c.when(a.OpenedAt) }},
		{head: "WHAT", get: alertWhat},
	})
}

func alertListCmd(c *cli) *cobra.Command {
	var f skein.AlertFilter
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the alerts that are open or acknowledged", Args: cobra.NoArgs,
		Example: "  skein alert list\n  skein alert list --all --workflow shop/orders -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Alert], error) {
				return skein.NewAlerts(s.Client).List(ctx, f, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return alertTable(c, all)
		})),
	}
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "only alerts of this namespace")
	cmd.Flags().StringVar(&f.Workflow, "workflow", "", "only alerts of this workflow")
	cmd.Flags().BoolVarP(&f.All, "all", "a", false, "also alerts that are resolved")
	notSettings(cmd.Flags(), "namespace", "workflow", "all")
	return cmd
}

func alertGetCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get ALERT", Short: "Show an alert and its messages",
		Example: "  skein alert get 0199a1b2-0000-7000-8000-000000000000",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			a, err := skein.NewAlerts(s.Client).Get(ctx, args[0])
			if err != nil {
				return err
			}
			return one(c, a, a.ID, func() error {
				if err := alertTable(c, []api.Alert{a.Alert}); err != nil {
					return err
				}
				fmt.Fprintln(c.out)
				return show(c, a.Notices, func(n api.AlertNotice) string { return n.Channel }, []column[api.AlertNotice]{
					{head: "CHANNEL", get: func(n api.AlertNotice) string { return n.Channel }},
					{head: "NOTICE", get: func(n api.AlertNotice) string { return strconv.Itoa(int(n.Seq)) }},
					{head: "STATE", get: func(n api.AlertNotice) string { return n.State }},
					{head: "TRIES", get: func(n api.AlertNotice) string { return strconv.Itoa(int(n.Tries)) }},
					{head: "NEXT", get: func(n api.AlertNotice) string { return c.when(n.NextAt) }},
					{head: "ERROR", get: func(n api.AlertNotice) string { return orDash(text(n.Error)) }},
				})
			})
		})),
	}
}

func alertChangeCmd(c *cli, resolve bool) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "ack ALERT", Short: "Acknowledge an alert, so that it is not escalated",
		Example: "  skein alert ack 0199a1b2-0000-7000-8000-000000000000 --reason \"the disk is being replaced\"",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
	}
	if resolve {
		cmd.Use, cmd.Short = "resolve ALERT", "Resolve an alert by hand, and notify its channels"
		cmd.Example = "  skein alert resolve 0199a1b2-0000-7000-8000-000000000000"
	}
	cmd.RunE = c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
		change := skein.NewAlerts(s.Client).Acknowledge
		if resolve {
			change = skein.NewAlerts(s.Client).Resolve
		}
		a, err := change(ctx, args[0], reason)
		if err != nil {
			return err
		}
		return one(c, a, a.ID, func() error { return alertTable(c, []api.Alert{a.Alert}) })
	}))
	cmd.Flags().StringVar(&reason, "reason", "", "reason, shown with the alert")
	return cmd
}

// channelFile is a file of channels.
type channelFile struct {
	Namespace string                    `yaml:"namespace"`
	Channels  map[string]map[string]any `yaml:"channels"`
	Cluster   []clusterRule             `yaml:"cluster"`
	cluster   bool                      // whether the file has the key cluster
}

// channelKeysLater are the keys of the file that are known but not supported yet.
var channelKeysLater = []string{"defaults", "group", "limits"}

func readChannels(path string) (f channelFile, err error) {
	src, err := readSource(path)
	if err != nil {
		return f, err
	}
	bad := func(format string, args ...any) (channelFile, error) {
		return channelFile{}, &said{errInvalid, path + ": " + fmt.Sprintf(format, args...)}
	}
	var keys map[string]any
	if err := yaml.Unmarshal(src, &keys); err != nil {
		return bad("%v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case slices.Contains(channelKeysLater, name):
			return bad("%s is not supported yet; remove it for now", name)
		case name == "watchdog":
			return bad("the watchdog is the setting watchdog_file of the nodes; remove the key")
		case name != "namespace" && name != "channels" && name != "cluster":
			return bad("unknown key %q; known keys: namespace, channels, cluster", name)
		}
	}
	if err := yaml.UnmarshalWithOptions(src, &f, yaml.Strict()); err != nil {
		return bad("channels must be a mapping such as channels: {ops: {log: {}}}: %v", err)
	}
	if _, f.cluster = keys["cluster"]; f.cluster && f.Namespace != "" && f.Namespace != "system" {
		return bad("cluster belongs to the namespace system; write namespace: system, or put cluster into a separate file")
	}
	if f.Namespace == "" && f.cluster {
		f.Namespace = "system"
	} else if f.Namespace == "" {
		f.Namespace = "default"
	}
	if len(f.Channels) == 0 && !f.cluster {
		return bad("the file has no channels; add some, such as channels: {ops: {log: {}}}")
	}
	return f, nil
}

func alertApplyCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "apply FILE", Short: "Create or change the channels of a file",
		Long: `Creates or changes the channels of a YAML file. Channels that the file does not name stay as they are. The file
has a namespace (default: default) and channels by name. Each channel has one kind: webhook, slack, email,
teams, pagerduty, alertmanager, discord, telegram, googlechat, dingtalk, feishu, wecom, ntfy, command or log. Write
an address or key that must stay secret as {secret: NAME}, a secret of the namespace (skein secret set).

The key cluster of the file replaces the alert rules about the cluster. Their channels are in the namespace
system.`,
		Example: "  skein alert apply channels.yaml\n  skein alert apply - < channels.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			f, err := readChannels(args[0])
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(f.Channels)) {
				is, err := skein.NewAlerts(s.Client).SetChannel(ctx, f.Namespace, name, f.Channels[name])
				if err != nil {
					return err
				}
				c.say("channel %s (%s) is set, its version is %d", channelFullName(is), is.Kind, is.Version)
			}
			if f.cluster {
				return applyClusterAlerts(ctx, c, s, args[0], f.Cluster)
			}
			return nil
		})),
	}
}

func channelFullName(k api.Channel) string { return k.Namespace + "/" + k.Name }

func alertChannelsCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "channels", Short: "List the channels", Args: cobra.NoArgs,
		Example: "  skein alert channels\n  skein alert channels --namespace shop -o yaml",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Channel], error) {
				return skein.NewAlerts(s.Client).Channels(ctx, namespace, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return show(c, all, channelFullName, []column[api.Channel]{
				{head: "CHANNEL", get: channelFullName},
				{head: "KIND", get: func(k api.Channel) string { return k.Kind }},
				{head: "VERSION", get: func(k api.Channel) string { return strconv.FormatInt(k.Version, 10) }},
				{head: "CHANGED", get: func(k api.Channel) string { return c.when(&k.ModifiedAt) }},
				{head: "BY", get: func(k api.Channel) string { return orDash(k.User) }},
			})
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only channels of this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

func alertDeleteChannelCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete-channel NS/NAME", Short: "Remove a channel; its waiting messages expire unless the channel is created again",
		Example: "  skein alert delete-channel shop/ops",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("channel", func(ctx context.Context, s *session, namespace, name string) error {
			if err := skein.NewAlerts(s.Client).DeleteChannel(ctx, namespace, name); err != nil {
				return err
			}
			c.say("channel %s/%s is removed", namespace, name)
			return nil
		}))),
	}
}

func alertTestCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "test NS/NAME", Short: "Send a test message through a channel, once",
		Example: "  skein alert test shop/ops",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("channel", func(ctx context.Context, s *session, namespace, name string) error {
			is, err := skein.NewAlerts(s.Client).TestChannel(ctx, namespace, name)
			if err != nil {
				return err
			}
			if !is.OK {
				return fmt.Errorf("channel %s/%s did not accept the message: %s", namespace, name, text(is.Error))
			}
			c.say("channel %s/%s took the message", namespace, name)
			return nil
		}))),
	}
}
