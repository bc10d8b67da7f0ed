package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/workflow"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// roleCmd manages roles: it creates and deletes them, and grants them to users and services.
func roleCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "role", Short: "Manage roles (sets of verbs), and grant them to users",
		Example: "  skein role grant operator ann --namespace shop\n  skein role list",
	}
	needsVerb(cmd)
	cmd.AddCommand(roleListCmd(c), roleCreateCmd(c), roleDeleteCmd(c), roleGrantCmd(c), roleRevokeCmd(c), roleMembersCmd(c))
	return cmd
}

func roleTable(c *cli, all []api.Role) error {
	return show(c, all, func(r api.Role) string { return r.Name }, []column[api.Role]{
		{head: "ROLE", get: func(r api.Role) string { return r.Name }},
		{head: "BY", get: func(r api.Role) string {
			if r.Builtin {
				return "skein"
			}
			return orDash(text(r.CreatedBy))
		}},
		{head: "VERBS", get: func(r api.Role) string { return strings.Join(r.Verbs, " ") }},
	})
}

func roleListCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the roles with their verbs", Args: cobra.NoArgs,
		Example: "  skein role list\n  skein role list -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := skein.NewPeople(s.Client).Roles(ctx)
			if err != nil {
				return err
			}
			return roleTable(c, page.Items)
		})),
	}
}

func roleCreateCmd(c *cli) *cobra.Command {
	var verbs []string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a role from verbs", Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Long:    "Creates a role. It gives no right until it is granted. A role cannot be changed. Create another one instead.",
		Example: "  skein role create starter --verbs workflow.read,run.read,run.start",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if len(verbs) == 0 {
				return usage("--verbs: name at least one verb; skein role list shows them")
			}
			r, err := skein.NewPeople(s.Client).CreateRole(ctx, api.RoleRequest{Name: args[0], Verbs: verbs})
			if err != nil {
				return err
			}
			return one(c, r, r.Name, func() error { return roleTable(c, []api.Role{r}) })
		})),
	}
	cmd.Flags().StringSliceVar(&verbs, "verbs", nil, "verbs of the role, such as run.read,run.start")
	return cmd
}

func roleDeleteCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Remove a role that no user has", Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Example: "  skein role delete starter",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if err := skein.NewPeople(s.Client).DeleteRole(ctx, args[0]); err != nil {
				return err
			}
			c.say("the role %s is removed", args[0])
			return nil
		})),
	}
}

func bindingTable(c *cli, all []api.Binding) error {
	return show(c, all, func(b api.Binding) string { return b.User + " " + b.Role + "@" + b.Namespace }, []column[api.Binding]{
		{head: "USER", get: func(b api.Binding) string { return b.User }},
		{head: "ROLE", get: func(b api.Binding) string { return b.Role }},
		{head: "NAMESPACE", get: func(b api.Binding) string { return b.Namespace }},
		{head: "EXPIRES", get: func(b api.Binding) string { return c.when(b.ExpiresAt) }},
		{head: "CREATED", get: func(b api.Binding) string { return c.when(&b.CreatedAt) }},
		{head: "BY", get: func(b api.Binding) string { return orDash(b.CreatedBy) }},
	})
}

func roleMembersCmd(c *cli) *cobra.Command {
	var f skein.BindingFilter
	cmd := &cobra.Command{
		Use: "members", Short: "List the users that have a role, with the namespaces", Args: cobra.NoArgs,
		Example: "  skein role members\n  skein role members --namespace shop",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Binding], error) {
				return skein.NewPeople(s.Client).Bindings(ctx, f, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return bindingTable(c, all)
		})),
	}
	cmd.Flags().StringVar(&f.Namespace, "namespace", "", "only roles in this namespace; *: only roles in all namespaces")
	cmd.Flags().StringVar(&f.User, "user", "", "only the roles of this user or service")
	return cmd
}

func roleGrantCmd(c *cli) *cobra.Command {
	var namespace, expires string
	cmd := &cobra.Command{
		Use: "grant ROLE PRINCIPAL", Short: "Grant a role to a user or service", Args: cobra.ExactArgs(2), ValidArgsFunction: argument,
		Long: `Grants a role in one namespace, or in all namespaces and for the cluster. You need the verb member.write and
each verb of the role there. If the user has the role already, --expires changes its end.`,
		Example: "  skein role grant operator ann --namespace shop\n  skein role grant cluster ann --expires 8h",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			req := api.BindingRequest{User: args[1], RoleRef: api.RoleRef{Role: args[0], Namespace: namespace}}
			if expires != "never" {
				d, err := workflow.ParseDuration(expires)
				if err != nil || d <= 0 {
					return usage("--expires %s: use a duration such as 8h, or never", expires)
				}
				req.ExpiresAt = &api.Time{Time: time.Now().UTC().Add(time.Duration(d))}
			}
			b, err := skein.NewPeople(s.Client).Grant(ctx, req)
			if err != nil {
				return err
			}
			return one(c, b, b.User, func() error { return bindingTable(c, []api.Binding{b}) })
		})),
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "namespace of the grant (default: all, and the cluster)")
	cmd.Flags().StringVar(&expires, "expires", "never", "time after which the grant ends, such as 8h or 30d")
	return cmd
}

func roleRevokeCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "revoke ROLE PRINCIPAL", Short: "Revoke a role of a user or service", Args: cobra.ExactArgs(2), ValidArgsFunction: argument,
		Long:    "Revokes a role in one namespace, or the role in all namespaces. Every node applies the change within five seconds, and open streams end.",
		Example: "  skein role revoke operator ann --namespace shop",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if err := skein.NewPeople(s.Client).Revoke(ctx, args[1], args[0], cmp.Or(namespace, "*")); err != nil {
				return err
			}
			c.say("%s no longer has the role %s in %s", args[1], args[0], cmp.Or(namespace, "all namespaces"))
			return nil
		})),
	}
	cmd.Flags().StringVar(&namespace, "namespace", "", "namespace of the role (default: the role in all namespaces)")
	return cmd
}
