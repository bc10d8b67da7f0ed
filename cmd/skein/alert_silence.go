package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func alertSilenceCmd(c *cli) *cobra.Command {
	var r api.SilenceRequest
	var namespace, length string
	var everything bool
	cmd := &cobra.Command{
		Use: "silence", Short: "Silence new alerts for a time", Args: cobra.NoArgs,
		Long: `Silences new alerts for a time: they are recorded and shown, but no channel is notified. When the silence ends,
the channels are notified of the alerts that are still open and not acknowledged. If an alert opened before the
silence and ends during it, its end is sent at once.`,
		Example: "  skein alert silence --workflow shop/orders --for 2h --reason \"the warehouse moves\"\n" +
			"  skein alert silence --namespace shop --for 30m --reason maintenance",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, _ []string) error {
			d, err := workflow.ParseDuration(length)
			if err != nil || d < workflow.Duration(time.Second) {
				return usage("--for %q is not a duration of a second or more, such as 2h", length)
			}
			r.Seconds = int64(time.Duration(d) / time.Second)
			ns := namespace
			if r.Workflow != "" {
				var full string
				if ns, full, _ = strings.Cut(r.Workflow, "/"); full == "" {
					ns, full = "default", r.Workflow
				}
				r.Workflow = full
			}
			switch {
			case everything && (ns != "" || r.Workflow != ""):
				return usage("--everything goes without --namespace and --workflow")
			case everything:
				ns = "*"
			case ns == "":
				return usage("say what is silenced: --workflow NS/NAME, --namespace NS, or --everything")
			case r.Reason == "":
				return usage("say why: --reason TEXT")
			}
			is, err := skein.NewAlerts(s.Client).Silence(ctx, ns, r)
			if err != nil {
				return err
			}
			return one(c, is, is.ID, func() error { return silenceTable(c, []api.Silence{is}) })
		})),
	}
	cmd.Flags().StringVar(&r.Workflow, "workflow", "", "only alerts of this workflow")
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only alerts of this namespace")
	cmd.Flags().BoolVar(&everything, "everything", false, "alerts of all namespaces")
	cmd.Flags().StringVar(&r.Rule, "rule", "", "only alerts of the rule of this name")
	cmd.Flags().StringVar(&length, "for", "1h", "duration, such as 2h; at most 90d")
	cmd.Flags().StringVar(&r.Reason, "reason", "", "reason, shown with the silence")
	notSettings(cmd.Flags(), "workflow", "namespace", "everything", "rule", "for", "reason")
	return cmd
}

func silenceID(s api.Silence) string { return s.ID }

func silenceTable(c *cli, all []api.Silence) error {
	return show(c, all, silenceID, []column[api.Silence]{
		{head: "SILENCE", get: silenceID},
		{head: "STATE", get: func(s api.Silence) string { return s.State }},
		{head: "OF", get: func(s api.Silence) string {
			if s.Workflow == nil {
				return s.Namespace + "/*"
			}
			return s.Namespace + "/" + *s.Workflow
		}},
		{head: "RULE", get: func(s api.Silence) string { return orDash(text(s.Rule)) }},
		{head: "UNTIL", get: func(s api.Silence) string { return c.when(&s.Until) }},
		{head: "BY", get: func(s api.Silence) string { return orDash(s.User) }},
		{head: "REASON", get: func(s api.Silence) string { return orDash(text(s.Reason)) }},
	})
}

// allSilences reads the silences of a namespace, or of all namespaces.
func allSilences(ctx context.Context, s *session, namespace string, over bool) ([]api.Silence, error) {
	return everyPage(func(cursor string) (api.List[api.Silence], error) {
		return skein.NewAlerts(s.Client).Silences(ctx, namespace, over, cursor, 1000)
	})
}

func alertSilencesCmd(c *cli) *cobra.Command {
	var namespace string
	var over bool
	cmd := &cobra.Command{
		Use: "silences", Short: "List the active and future silences", Args: cobra.NoArgs,
		Example: "  skein alert silences\n  skein alert silences --all -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := allSilences(ctx, s, namespace, over)
			if err != nil {
				return err
			}
			return silenceTable(c, all)
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only silences about this namespace")
	cmd.Flags().BoolVarP(&over, "all", "a", false, "also silences that have ended")
	notSettings(cmd.Flags(), "namespace", "all")
	return cmd
}

func alertUnsilenceCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "unsilence SILENCE", Short: "End a silence early; within a minute, channels are notified of alerts that are still open",
		Example: "  skein alert unsilence 0199a1b2-0000-7000-8000-000000000000",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			all, err := allSilences(ctx, s, namespace, false)
			if err != nil {
				return err
			}
			for i := range all {
				if all[i].ID != args[0] {
					continue
				}
				is, err := skein.NewAlerts(s.Client).EndSilence(ctx, all[i].Namespace, args[0])
				if err != nil {
					return err
				}
				return one(c, is, is.ID, func() error { return silenceTable(c, []api.Silence{is}) })
			}
			return usage("%q is not a silence that is in force: see skein alert silences", args[0])
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the silence; needed if you may read only one namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}
