package main

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func namespaceCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "namespace", Aliases: []string{"ns"}, Short: "Show and set the quotas of namespaces, and their rules for tasks",
		Example: "  skein namespace list\n  skein namespace set shop --quota runs=500 --quota runs_per_hour=10000 --isolation box",
	}
	needsVerb(cmd)
	cmd.AddCommand(namespaceListCmd(c), namespaceShowCmd(c), namespaceSetCmd(c))
	return cmd
}

func namespaceName(n api.Namespace) string { return n.Name }

// bound shows a use and its quota.
func bound(use, quota *int64) string {
	switch {
	case use == nil && quota == nil:
		return "-"
	case quota == nil:
		return strconv.FormatInt(*use, 10)
	case use == nil:
		return strconv.FormatInt(*quota, 10)
	}
	return strconv.FormatInt(*use, 10) + " of " + strconv.FormatInt(*quota, 10)
}

func namespaceTable(c *cli, all []api.Namespace) error {
	return show(c, all, namespaceName, []column[api.Namespace]{
		{head: "NAMESPACE", get: namespaceName},
		{head: "RUNS", get: func(n api.Namespace) string { return bound(n.Runs, n.Quotas.Runs) }},
		{head: "RUNS THIS HOUR", get: func(n api.Namespace) string { return bound(n.RunsInHour, n.Quotas.RunsPerHour) }},
		{head: "TASKS", get: func(n api.Namespace) string { return bound(nil, n.Quotas.Tasks) }},
		{head: "PARAMS BYTES", get: func(n api.Namespace) string { return bound(nil, n.Quotas.ParamsBytes) }},
		{head: "LOGS TODAY", get: func(n api.Namespace) string { return bound(n.LogsInDay, n.Quotas.LogsPerDay) }},
		{head: "STORED BYTES", get: func(n api.Namespace) string { return bound(n.StoredBytes, n.Quotas.StoredBytes) }},
		{head: "VERSIONS", get: func(n api.Namespace) string { return bound(n.Versions, n.Quotas.Versions) }},
		{head: "TRIGGERS", get: func(n api.Namespace) string { return bound(n.Triggers, n.Quotas.Triggers) }},
		{head: "TOKENS", get: func(n api.Namespace) string { return bound(n.Tokens, n.Quotas.Tokens) }},
		{head: "CALLS A MINUTE", get: func(n api.Namespace) string { return bound(nil, n.Quotas.RequestsPerMinute) }},
		{head: "ISOLATION", get: func(n api.Namespace) string { return orDash(n.Isolation) }},
		{head: "READ", get: func(n api.Namespace) string { return orDash(strings.Join(n.AllowRead, " ")) }},
		{head: "WRITE", get: func(n api.Namespace) string { return orDash(strings.Join(n.AllowWrite, " ")) }},
		{head: "EGRESS", get: func(n api.Namespace) string { return orDash(n.Egress) }},
		{head: "LOCKS", get: func(n api.Namespace) string { return cmp.Or(n.Locks, "own") }},
		{head: "RUN AS", get: func(n api.Namespace) string { return orDash(n.RunAs) }},
		{head: "BY", get: func(n api.Namespace) string { return orDash(text(n.User)) }},
		{head: "CHANGED", get: func(n api.Namespace) string { return c.when(n.ModifiedAt) }},
	})
}

func namespaceListCmd(c *cli) *cobra.Command {
	var only string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the namespaces that have a workflow, a quota or an isolation", Args: cobra.NoArgs,
		Long: `Lists the namespaces that have a workflow, a quota or an isolation, with the use of their quotas. Runs are counted only in
namespaces with a quota of runs. You need the verb namespace.read.`,
		Example: "  skein namespace list\n  skein namespace list --namespace shop -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Namespace], error) {
				return skein.NewNamespaces(s.Client).List(ctx, only, cursor, 0)
			})
			if err != nil {
				return err
			}
			return namespaceTable(c, all)
		})),
	}
	cmd.Flags().StringVarP(&only, "namespace", "n", "", "only this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

// quotaRow is one quota of a namespace.
type quotaRow struct {
	Quota string `json:"quota"`
	Used  *int64 `json:"used"`
	Limit *int64 `json:"limit"`
}

// quotaRows lists what a namespace uses of each quota.
func quotaRows(n *api.Namespace) []quotaRow {
	return []quotaRow{
		{"runs", n.Runs, n.Quotas.Runs},
		{"runs_per_hour", n.RunsInHour, n.Quotas.RunsPerHour},
		{"tasks", nil, n.Quotas.Tasks},
		{"params_bytes", nil, n.Quotas.ParamsBytes},
		{"logs_per_day", n.LogsInDay, n.Quotas.LogsPerDay},
		{"stored_bytes", n.StoredBytes, n.Quotas.StoredBytes},
		{"versions", n.Versions, n.Quotas.Versions},
		{"triggers", n.Triggers, n.Quotas.Triggers},
		{"tokens", n.Tokens, n.Quotas.Tokens},
		{"requests_per_minute", nil, n.Quotas.RequestsPerMinute},
	}
}

func namespaceShowCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "show NS", Short: "Show each quota of a namespace and its use",
		Long: `Shows each quota with its limit and its present use. The quotas tasks and params_bytes limit a single workflow
or run, so they have no use to show. Each node counts requests_per_minute by itself. You need the verb
namespace.read.`,
		Example: "  skein namespace show shop",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			page, err := skein.NewNamespaces(s.Client).List(ctx, args[0], "", 1)
			if err != nil {
				return err
			}
			is := api.Namespace{Name: args[0]}
			if len(page.Items) > 0 {
				is = page.Items[0]
			}
			number := func(n *int64) string {
				if n == nil {
					return "-"
				}
				return strconv.FormatInt(*n, 10)
			}
			return show(c, quotaRows(&is), func(q quotaRow) string { return q.Quota }, []column[quotaRow]{
				{head: "QUOTA", get: func(q quotaRow) string { return q.Quota }},
				{head: "USED", get: func(q quotaRow) string { return number(q.Used) }},
				{head: "LIMIT", get: func(q quotaRow) string { return number(q.Limit) }},
			})
		})),
	}
}

const namespaceSetHelp = `Sets what you give, and leaves the rest. QUOTA=none removes a quota. You need the verb namespace.write.

  runs           unfinished runs, waiting runs included
  runs_per_hour  runs that begin within a full hour (UTC)
  tasks          tasks of one workflow
  params_bytes   bytes of the parameters of one run, such as 65536 or 64Ki
  logs_per_day   bytes of the logs of attempts that end within a day (UTC), such as 10Gi
  stored_bytes   bytes of the files of kept versions, of the logs, artifacts and outputs of ended runs,
                 and of parameters of kept runs if they have 1 KiB or more; such as 2Gi
  versions       kept versions of all workflows
  triggers       triggers of all workflows
  tokens         valid tokens and invitations that are limited to some namespaces, including this one
  requests_per_minute
                 calls by callers that have rights only in this namespace

Beyond a quota, a start is refused (quota_exceeded), a call of another workflow fails, and a backfill waits.
Runs that have begun continue.

--isolation sets the least level of isolation of all tasks of the namespace: fence, user, box, or none to demand
no level. Only workers that offer the level or a higher one run its tasks. Attempts that run already keep their
level. In a cluster, a command that raises the level or narrows a rule waits until all nodes obey: about 3 s.

The following rules hold in addition to the settings of each worker, and never give a task more than these do:
--allow-read and --allow-write are the only paths that a task may name, in access, dir or as a script; they need
the level fence or a higher one. --egress is the policy for the calls that Skein makes for the namespace: tasks,
sources, channels, git sources and tests of connections. It is any, public, or networks with commas. An empty
text ("") takes a rule away.

--run-as is the Unix user of all tasks of the namespace. It needs the level user or box. Only workers that permit
the user (setting task_users) run its tasks. An empty text: each worker chooses a user for the namespace.

--locks own: the locks of the namespace are its own. --locks shared: a lock has the same name in all such
namespaces. Namespaces that existed before locks had namespaces are shared until you change this.`

// namespaceRules are the names of these flags.
var namespaceRules = []string{"isolation", "allow-read", "allow-write", "egress", "locks", "run-as"}

// namespaceFlags are the flags of the rules of a namespace.
type namespaceFlags struct {
	flags                    *pflag.FlagSet
	isolation, egress, locks string
	runAs                    string
	read, write              []string
}

func (f *namespaceFlags) add(to *pflag.FlagSet) {
	f.flags = to
	to.StringVar(&f.isolation, "isolation", "", "least level of isolation of all tasks: none | fence | user | box")
	to.StringArrayVar(&f.read, "allow-read", nil, "path that a task may name for reading; may be given several times")
	to.StringArrayVar(&f.write, "allow-write", nil, "path that a task may name for writing; may be given several times")
	to.StringVar(&f.egress, "egress", "", "addresses that calls of the namespace may reach: any, public, or networks such as 10.0.0.0/8")
	to.StringVar(&f.runAs, "run-as", "", "Unix user of all tasks, on workers that permit it")
	to.StringVar(&f.locks, "locks", "", "whose locks the names in workflows mean: own | shared")
	notSettings(to, namespaceRules...)
}

// some reports whether a flag was given.
func (f *namespaceFlags) some() bool {
	return slices.ContainsFunc(namespaceRules, f.flags.Changed)
}

// put sets in a request what was given.
func (f *namespaceFlags) put(to *api.NamespaceRequest) {
	for flag, text := range map[string]struct {
		to   **string
		from *string
	}{"isolation": {&to.Isolation, &f.isolation}, "egress": {&to.Egress, &f.egress}, "locks": {&to.Locks, &f.locks}, "run-as": {&to.RunAs, &f.runAs}} {
		if f.flags.Changed(flag) {
			*text.to = text.from
		}
	}
	if f.flags.Changed("allow-read") {
		to.AllowRead = paths(f.read)
	}
	if f.flags.Changed("allow-write") {
		to.AllowWrite = paths(f.write)
	}
}

func namespaceSetCmd(c *cli) *cobra.Command {
	var given []string
	var rules namespaceFlags
	cmd := &cobra.Command{
		Use: "set NS", Short: "Change the quotas of a namespace, or its rules for tasks",
		Long:    namespaceSetHelp,
		Example: "  skein namespace set shop --quota runs=500 --quota params_bytes=64Ki\n  skein namespace set shop --isolation box --egress public\n  skein namespace set shop --isolation fence --allow-read /srv/shop --allow-read /opt/tools",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if len(given) == 0 && !rules.some() {
				return usage("give what to change: --quota runs=500, or --isolation box")
			}
			if rules.isolation != "" && !slices.Contains(dag.IsolationLevels, rules.isolation) {
				return usage("--isolation %s: use one of %s", rules.isolation, strings.Join(dag.IsolationLevels, ", "))
			}
			of := skein.NewNamespaces(s.Client)
			page, err := of.List(ctx, args[0], "", 1)
			if err != nil {
				return err
			}
			var to api.NamespaceRequest
			if len(page.Items) > 0 {
				to.Quotas = page.Items[0].Quotas
			}
			for _, one := range given {
				if err := setQuota(&to.Quotas, one); err != nil {
					return err
				}
			}
			rules.put(&to)
			is, err := of.Put(ctx, args[0], to)
			if err != nil {
				return err
			}
			return namespaceTable(c, []api.Namespace{is})
		})),
	}
	cmd.Flags().StringArrayVar(&given, "quota", nil, "QUOTA=NUMBER or QUOTA=none; may be given several times")
	notSettings(cmd.Flags(), "quota")
	rules.add(cmd.Flags())
	return cmd
}

// paths returns the given paths without empty ones.
func paths(given []string) *[]string {
	all := slices.DeleteFunc(slices.Clone(given), func(path string) bool { return path == "" })
	return &all
}

// setQuota reads QUOTA=NUMBER.
func setQuota(to *api.Quotas, given string) error {
	name, value, _ := strings.Cut(given, "=")
	of := map[string]**int64{"runs": &to.Runs, "runs_per_hour": &to.RunsPerHour, "tasks": &to.Tasks, "params_bytes": &to.ParamsBytes,
		"logs_per_day": &to.LogsPerDay, "stored_bytes": &to.StoredBytes, "versions": &to.Versions, "triggers": &to.Triggers, "tokens": &to.Tokens,
		"requests_per_minute": &to.RequestsPerMinute}
	quota := of[name]
	if quota == nil {
		return usage("--quota %s: there is no quota %q: use one of %s", given, name, strings.Join(slices.Sorted(maps.Keys(of)), ", "))
	}
	if value == "none" {
		*quota = nil
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil && (strings.HasSuffix(name, "_bytes") || quota == &to.LogsPerDay) {
		n, err = workflow.ParseSize(value)
	}
	if err != nil || n < 1 {
		return usage("--quota %s: use a number of at least 1, or none", given)
	}
	*quota = &n
	return nil
}
