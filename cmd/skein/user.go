package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// userCmd manages people and services.
func userCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "user", Short: "Manage users and services",
		Example: "  skein user create ann --role operator@shop\n  skein user list",
	}
	needsVerb(cmd)
	cmd.AddCommand(userCreateCmd(c), userListCmd(c), userGetCmd(c), userPasswdCmd(c),
		userStateCmd(c, "disable", "Disable a user: it has no right until it is enabled", "is disabled", skein.People.DisableUser),
		userStateCmd(c, "enable", "Enable a disabled user: it has its rights again", "is enabled", skein.People.EnableUser),
		userDeleteCmd(c))
	return cmd
}

// argument returns no completions, for names of users and roles. Without it, the word NAME would be completed
// with workflows.
func argument(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func userCreateCmd(c *cli) *cobra.Command {
	var roles []string
	var none, stdin, service bool
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Create a user, who signs in with a password, or a service, which calls with tokens",
		Long: `Creates a user and asks for a password on the terminal, without showing it. A password has at least 12
characters and must not be a frequent one. --password-stdin reads it from standard input instead. A user without
a password can sign in only in other ways.

--role ROLE@NS grants a role in one namespace. --role ROLE grants it in all namespaces and for the cluster. You
can grant a role only where you have each of its verbs. Without a server, the command changes the data folder or
the database directly. In this way you create the first user.`,
		Example: "  skein user create ann --role operator@shop --role viewer\n  skein user create root --role cluster --password-stdin < file\n  skein user create ci --service --role editor@shop",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(func(ctx context.Context, args []string) error {
			req := api.UserRequest{Name: args[0], Kind: "user"}
			for _, r := range roles {
				req.Roles = append(req.Roles, roleAt(r))
			}
			switch {
			case service && stdin, none && stdin:
				return usage("--password-stdin gives a password; leave --no-password and --service out")
			case service:
				req.Kind = "service"
			case !none:
				var err error
				if req.Password, err = newPassword(ctx, c, stdin); err != nil {
					return err
				}
			}
			return c.writing(func(ctx context.Context, s *session, _ []string) error {
				u, err := skein.NewPeople(s.Client).CreateUser(ctx, req)
				if err != nil {
					return err
				}
				return one(c, u, u.Name, func() error { return userTable(c, []api.User{u}, true) })
			})(ctx, args)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVar(&roles, "role", nil, "ROLE@NAMESPACE, or ROLE for all namespaces and the cluster; may be repeated")
	f.BoolVar(&none, "no-password", false, "create a user that cannot sign in with a password")
	f.BoolVar(&stdin, "password-stdin", false, "read the password from the first line of standard input")
	f.BoolVar(&service, "service", false, "create a service: a program that calls with tokens")
	return cmd
}

// roleAt reads ROLE@NS or ROLE. The name of a namespace contains no @.
func roleAt(text string) api.RoleRef {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return api.RoleRef{Role: text[:i], Namespace: text[i+1:]}
	}
	return api.RoleRef{Role: text}
}

// newPassword asks for a password twice, or reads it from standard input.
func newPassword(ctx context.Context, c *cli, stdin bool) (string, error) {
	if stdin {
		return passwordLine(bounded(c.in))
	}
	one, err := askHidden(ctx, c, "New password: ")
	if err != nil {
		return "", err
	}
	two, err := askHidden(ctx, c, "Again: ")
	if err == nil && one != two {
		err = usage("the two passwords differ; nothing was changed")
	}
	return one, err
}

// passwordBytesMax bounds the bytes that are read as a password.
const passwordBytesMax = 1024

// passwordLine reads the next line of standard input.
func passwordLine(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" || len(line) > passwordBytesMax {
		return "", usage("--password-stdin: give a line of 1 to %d bytes", passwordBytesMax)
	}
	return line, nil
}

// bounded reads passwords from standard input.
func bounded(from io.Reader) *bufio.Reader {
	return bufio.NewReader(io.LimitReader(from, 2*(passwordBytesMax+2)))
}

// askHidden asks a question on the terminal and does not show the typed text. After an interrupt it restores
// the terminal.
func askHidden(ctx context.Context, c *cli, question string) (string, error) {
	fd := int(c.in.Fd())
	if c.noInput || !term.IsTerminal(fd) {
		return "", usage("there is no terminal to ask for a password: give it by --password-stdin, or say --no-password")
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	was, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprint(c.err, question)
	type typed struct {
		text []byte
		err  error
	}
	got := make(chan typed, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		got <- typed{text, err}
	}()
	select {
	case t := <-got:
		fmt.Fprintln(c.err)
		return string(t.text), t.err
	case <-ctx.Done():
		_ = term.Restore(fd, was)
		fmt.Fprintln(c.err)
		return "", &said{errInterrupted, "nothing was done"}
	}
}

func userName(u api.User) string { return u.Name }

// rolesText writes roles on one line.
func rolesText(roles []api.RoleRef) string {
	all := make([]string, len(roles))
	for i, r := range roles {
		if all[i] = r.Role; r.Namespace != "" && r.Namespace != "*" {
			all[i] += "@" + r.Namespace
		}
		if r.ExpiresAt != nil {
			all[i] += until(r.ExpiresAt)
		}
	}
	return orDash(strings.Join(all, " "))
}

func userTable(c *cli, all []api.User, signIn bool) error {
	cols := []column[api.User]{
		{head: "USER", get: userName},
		{head: "KIND", get: func(u api.User) string { return u.Kind }},
		{head: "STATE", get: func(u api.User) string { return c.state(u.State) }},
		{head: "SOURCE", get: func(u api.User) string { return u.Source }},
		{head: "ROLES", get: func(u api.User) string { return rolesText(u.Roles) }},
		{head: "CREATED", get: func(u api.User) string { return c.when(&u.CreatedAt) }},
		{head: "BY", get: func(u api.User) string { return orDash(u.CreatedBy) }},
	}
	if signIn {
		cols = append(cols, column[api.User]{head: "PASSWORD", get: func(u api.User) string {
			if u.HasPassword != nil && *u.HasPassword {
				return "yes"
			}
			return "no"
		}})
	}
	return show(c, all, userName, cols)
}

func userListCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List users and services with their roles", Args: cobra.NoArgs,
		Example: "  skein user list\n  skein user list -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.User], error) {
				return skein.NewPeople(s.Client).Users(ctx, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return userTable(c, all, false)
		})),
	}
}

func userGetCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show a user, its roles and whether it has a password", Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Example: "  skein user get ann",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, args []string) error {
			u, err := skein.NewPeople(s.Client).User(ctx, args[0])
			if err != nil {
				return err
			}
			return one(c, u, u.Name, func() error { return userTable(c, []api.User{u}, true) })
		})),
	}
}

func userPasswdCmd(c *cli) *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{
		Use: "passwd NAME", Short: "Change a password", Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Long: `Sets the password of a user. The command asks for it on the terminal without showing it, or reads it from
standard input. You need the verb user.write and each right of the user. For your own password you need the old
one instead: the command asks for it, or reads it from the first of two lines of standard input.`,
		Example: "  skein user passwd ann\n  skein user passwd ann --password-stdin < file",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			return changePassword(ctx, c, skein.NewPeople(s.Client), args[0], stdin)
		})),
	}
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

func changePassword(ctx context.Context, c *cli, p skein.People, name string, stdin bool) error {
	me, err := p.Me(ctx)
	if err != nil {
		return err
	}
	var req api.PasswordRequest
	in := bounded(c.in)
	if me.Kind == "user" && strings.EqualFold(me.Name, name) {
		if stdin {
			req.Old, err = passwordLine(in)
		} else {
			req.Old, err = askHidden(ctx, c, "Old password: ")
		}
		if err != nil {
			return err
		}
	}
	if stdin {
		req.Password, err = passwordLine(in)
	} else {
		req.Password, err = newPassword(ctx, c, false)
	}
	if err != nil {
		return err
	}
	if err := p.SetPassword(ctx, name, req); err != nil {
		return err
	}
	c.say("the password of %s is changed", name)
	return nil
}

func userStateCmd(c *cli, verb, short, done string, do func(skein.People, context.Context, string) (api.User, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Long:    short + ". Every node applies the change within five seconds. The last user that can administer everything cannot be disabled.",
		Example: "  skein user " + verb + " ann",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			u, err := do(skein.NewPeople(s.Client), ctx, args[0])
			if err != nil {
				return err
			}
			c.say("%s %s", u.Name, done)
			return nil
		})),
	}
}

func userDeleteCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete NAME", Short: "Delete a user or a service with its roles", Args: cobra.ExactArgs(1), ValidArgsFunction: argument,
		Long: `Deletes a user or a service with its roles and its password. Its tokens lose all rights, and so do tokens that
it made. The last user that can administer everything cannot be deleted.`,
		Example: "  skein user delete ann",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			if err := skein.NewPeople(s.Client).DeleteUser(ctx, args[0]); err != nil {
				return err
			}
			c.say("%s is removed", args[0])
			return nil
		})),
	}
}

// rightsRow names a part of the cluster and the verbs that a caller has there.
type rightsRow struct{ namespace, verbs string }

// identity is the caller as a server identifies it, with the credential of the call.
type identity struct {
	api.Me
	Server string `json:"server"`
	By     string `json:"by"`
}

func whoamiCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Show your user at the server, and your verbs in each namespace", Args: cobra.NoArgs,
		Example: "  skein whoami\n  skein whoami -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			me, err := skein.NewPeople(s.Client).Me(ctx)
			if err != nil {
				return err
			}
			is := identity{Me: me, Server: s.URL(), By: s.shown(c)}
			return one(c, is, me.Name, func() error {
				fmt.Fprintf(c.out, "%s (%s) at %s, by %s\n", me.Name, me.Kind, is.Server, is.By)
				rows := []rightsRow{}
				for _, ns := range slices.Sorted(maps.Keys(me.Verbs)) {
					rows = append(rows, rightsRow{ns, strings.Join(me.Verbs[ns], " ")})
				}
				return show(c, rows, func(r rightsRow) string { return r.namespace }, []column[rightsRow]{
					{head: "NAMESPACE", get: func(r rightsRow) string { return r.namespace }},
					{head: "VERBS", get: func(r rightsRow) string { return orDash(r.verbs) }},
				})
			})
		})),
	}
}
