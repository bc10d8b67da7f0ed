package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func gitCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "git", Short: "Manage git sources, from whose repositories namespaces get workflows",
		Long: `Manages git sources. A node looks at the repository of a git source in intervals, and applies all workflows of a new
commit in one transaction, or none: if one file has a fault, the commit before stays in force. The workflows of a git
source cannot be changed by hand.`,
		Example: "  skein git add shop/flows --url https://git.example.com/shop/flows.git --branch main --folder workflows\n  skein git plan shop/flows\n  skein git list",
	}
	needsVerb(cmd)
	cmd.AddCommand(gitAddCmd(c), gitListCmd(c), gitPlanCmd(c), gitSyncCmd(c), gitRemoveCmd(c))
	return cmd
}

func gitFullName(g api.GitSource) string { return g.Namespace + "/" + g.Name }

func gitAddCmd(c *cli) *cobra.Command {
	var req api.GitSourceRequest
	var hosts string
	var plan bool
	cmd := &cobra.Command{
		Use: "add NS/NAME --url URL", Short: "Create a git source, or replace all of its values",
		Long: `Creates a git source, or replaces all of its values. Every YAML file in the folder with the key name or tasks is a
workflow file, except those that a workflow names under files. Passwords and keys are secrets of the namespace (skein
secret set), and the source has their names. A node looks at the repository within a few seconds; skein git sync waits for the result.`,
		Example: `  skein git add shop/flows --url https://git.example.com/shop/flows.git --user git --password-secret GIT_TOKEN
  skein git add shop/flows --url git@git.example.com:shop/flows.git --key-secret GIT_KEY --known-hosts-file hosts --folder workflows
  skein git add flows --url file:///srv/git/flows.git --tag v3 --removed delete`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("git source", func(ctx context.Context, s *session, namespace, name string) (err error) {
			if hosts != "" {
				if req.KnownHosts, err = startOf(hosts); err != nil {
					return err
				}
			}
			if plan {
				is, err := skein.NewGitSources(s.Client).Preview(ctx, namespace, name, req)
				if err != nil {
					return err
				}
				return gitOutcome(c, &is, "WOULD BE")
			}
			is, err := skein.NewGitSources(s.Client).Set(ctx, namespace, name, req)
			if err != nil {
				return err
			}
			c.say("git source %s is set, its version is %d; a node looks at it soon (skein git list)", gitFullName(is), is.Version)
			return nil
		}))),
	}
	f := cmd.Flags()
	f.StringVar(&req.URL, "url", "", "repository: https, ssh, http or file URL, or USER@HOST:PATH")
	f.StringVar(&req.Branch, "branch", "", "branch (default main)")
	f.StringVar(&req.Tag, "tag", "", "tag, in place of a branch")
	f.StringVar(&req.Folder, "folder", "", "folder of the repository with the workflow files (default: all of it)")
	f.StringVar(&req.Every, "every", "", "time between two looks, from 10s (default 1m)")
	f.StringVar(&req.Login, "user", "", "https, http: name of the user at the server")
	f.StringVar(&req.Password, "password-secret", "", "https, http: secret with the password or token")
	f.StringVar(&req.Key, "key-secret", "", "ssh: secret with the private key, without a passphrase")
	f.StringVar(&hosts, "known-hosts-file", "", "ssh: file with the keys of the server, as ssh-keyscan prints them")
	f.StringVar(&req.Hook, "hook-secret", "", "secret with which the server of the repository signs its webhooks")
	f.StringVar(&req.Removed, "removed", "", "workflows whose files were removed: keep | pause | delete (default pause)")
	f.BoolVar(&req.Adopt, "adopt", false, "take over existing workflows of the same names that come from elsewhere")
	f.BoolVar(&plan, "plan", false, "store nothing; show what the first sync would change")
	notSettings(f, "plan", "url", "branch", "tag", "folder", "every", "user", "password-secret", "key-secret", "known-hosts-file", "hook-secret", "removed", "adopt")
	return cmd
}

func gitListCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the git sources, with the commit in force and the faults of the newest commit", Args: cobra.NoArgs,
		Example: "  skein git list\n  skein git list --namespace shop -o yaml",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.GitSource], error) {
				return skein.NewGitSources(s.Client).List(ctx, namespace, cursor, 1000)
			})
			if err != nil {
				return err
			}
			err = show(c, all, gitFullName, []column[api.GitSource]{
				{head: "SOURCE", get: gitFullName},
				{head: "STATE", get: func(g api.GitSource) string { return gitState(&g.State) }},
				{head: "APPLIED", get: func(g api.GitSource) string { return commitText(g.State.Applied) }},
				{head: "SINCE", get: func(g api.GitSource) string { return c.when(g.State.AppliedAt) }},
				{head: "WORKFLOWS", get: func(g api.GitSource) string { return fmt.Sprint(len(g.State.Workflows)) }},
				{head: "LOOKED", get: func(g api.GitSource) string { return c.when(g.State.LookedAt) }},
				{head: "FROM", get: gitFrom},
			})
			for i := range all {
				gitFaults(c, &all[i])
			}
			return err
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only git sources of this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

// gitState returns the state of a source in a word.
func gitState(s *api.GitState) string {
	switch {
	case s.Failing != nil && s.Failing.Commit != nil:
		return "refused " + commitText(s.Failing.Commit)
	case s.Failing != nil:
		return "away"
	case s.Applied == nil:
		return "new"
	}
	return "applied"
}

// commitText returns the beginning of the name of a commit.
func commitText(hash *string) string {
	if hash == nil {
		return "-"
	}
	return (*hash)[:min(len(*hash), 10)]
}

func gitFrom(g api.GitSource) string {
	ref := "main"
	if g.Branch+g.Tag != "" {
		ref = g.Branch + g.Tag
	}
	from := g.URL + "@" + ref
	if g.Folder != "" {
		from += ":" + g.Folder
	}
	return from
}

// gitFaults prints why the newest commit of a source was not applied.
func gitFaults(c *cli, g *api.GitSource) {
	f := g.State.Failing
	if f == nil {
		return
	}
	c.say("%s: %s (since %s)", gitFullName(*g), f.Why, c.when(&f.Since))
	for i := range f.Errors {
		e := &f.Errors[i]
		text := fmt.Sprintf("  %s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		c.say("%s", text)
	}
	if f.More > 0 {
		c.say("  and %d more", f.More)
	}
}

// gitOutcome prints the changes of a sync or a plan. It returns an error if the repository or the commit
// cannot be used.
func gitOutcome(c *cli, is *api.GitSync, done string) error {
	f := is.Source.State.Failing
	if f != nil {
		gitFaults(c, &is.Source)
	}
	if err := show(c, is.Changes, func(g api.GitChange) string { return g.Workflow }, []column[api.GitChange]{
		{head: "WORKFLOW", get: func(g api.GitChange) string { return g.Workflow }},
		{head: done, get: func(g api.GitChange) string { return g.Change }},
		{head: "FILE", get: func(g api.GitChange) string { return orDash(text(g.File)) }},
	}); err != nil {
		return err
	}
	if f != nil {
		return &said{errInvalid, "git source " + gitFullName(is.Source) + ": nothing was changed"}
	}
	return nil
}

func gitPlanCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "plan NS/NAME", Short: "Show what a sync would change, and change nothing",
		Long:    "Reads the repository now, and shows what a sync would change, or the faults of the commit by file and line.\nExit code: 0 no fault, 6 the repository cannot be read or the commit has faults.",
		Example: "  skein git plan shop/flows",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("git source", func(ctx context.Context, s *session, namespace, name string) error {
			is, err := skein.NewGitSources(s.Client).Plan(ctx, namespace, name)
			if err != nil {
				return err
			}
			return gitOutcome(c, &is, "WOULD BE")
		}))),
	}
}

func gitSyncCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "sync NS/NAME", Short: "Read the repository now, and apply its commit: all workflows, or none",
		Long:    "Reads the repository now, and applies its commit in one transaction, also if the commit was applied or refused before.\nExit code: 0 the commit is in force, 6 the repository cannot be read or the commit has faults.",
		Example: "  skein git sync shop/flows",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("git source", func(ctx context.Context, s *session, namespace, name string) error {
			is, err := skein.NewGitSources(s.Client).Sync(ctx, namespace, name)
			if err != nil {
				return err
			}
			return gitOutcome(c, &is, "WAS")
		}))),
	}
}

func gitRemoveCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "remove NS/NAME", Aliases: []string{"rm"}, Short: "Remove a git source; its workflows stay, and can be changed by hand",
		Example: "  skein git remove shop/flows",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("git source", func(ctx context.Context, s *session, namespace, name string) error {
			if err := skein.NewGitSources(s.Client).Delete(ctx, namespace, name); err != nil {
				return err
			}
			c.say("git source %s/%s is removed; its workflows stay", namespace, name)
			return nil
		}))),
	}
}
