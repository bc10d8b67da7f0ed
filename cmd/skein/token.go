package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/datadir"
	"skein.dev/skein/internal/localtoken"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func (c *cli) tokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Manage tokens, with which programs call nodes",
		Example: "  skein token create --kind worker --name rack-7\n  skein token revoke rack-7",
	}
	needsVerb(cmd)
	cmd.AddCommand(c.tokenCreateCmd(), c.tokenListCmd(), tokenRotateCmd(c), c.tokenRevokeCmd(), c.tokenLocalCmd())
	return cmd
}

// tokenFlags holds the flags of token create.
type tokenFlags struct {
	kind, name, owner, expires, out string
	verbs, namespaces               []string
}

func (c *cli) tokenCreateCmd() *cobra.Command {
	var f tokenFlags
	cmd := &cobra.Command{
		Use: "create", Short: "Create a token; it is shown once",
		Long: `Creates a token and prints it once, because only its hash is stored. Programs read it from a file (--token-file)
or from SKEIN_API_TOKEN. There are three kinds: api for people and programs, worker for skein worker, node for
calls between the nodes of a cluster. A node that listens beyond loopback requires a token of every caller. A
token is valid for 90 days unless --expires sets another time. skein doctor names tokens that expire within 14
days.

A token of the kind api has your verbs in all namespaces and for the cluster. --verbs and --namespaces narrow
it. You can give only verbs that you have. If you lose a right later, the token loses it, too. If you call this
command with a token, the new token ends with that token.

--for creates a token of another user or service. Calls with it count as calls of that user, in approvals, runs
and events. You need each right of the user or service, and for a user the verb user.impersonate.`,
		Example: "  skein token create --kind api --name ann --expires 30d\n  skein token create --name ci --verbs workflow.read,run.read,run.start --namespaces shop\n  skein token create --kind worker --name rack-7 --expires never --out /etc/skein/token",
		Args:    cobra.NoArgs,
		RunE: c.do(c.writing(func(ctx context.Context, s *session, _ []string) error {
			return c.createToken(ctx, s, f)
		})),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.kind, "kind", "api", "api | worker | node")
	fl.StringVar(&f.name, "name", "", "name of the token (default: the kind, the user and the day)")
	fl.StringVar(&f.owner, "for", "", "user or service of a token of the kind api (default: you)")
	fl.StringVar(&f.expires, "expires", "90d", "time for which the token is valid, such as 30d; never: until it is revoked")
	fl.StringSliceVar(&f.verbs, "verbs", nil, "only these of your verbs, such as run.read,run.start (default: all)")
	fl.StringSliceVar(&f.namespaces, "namespaces", nil, "only in these namespaces (default: all, and the cluster)")
	fl.StringVar(&f.out, "out", "", "file for the token, readable by its owner only, instead of the terminal")
	notSettings(fl, "name")
	return cmd
}

func (c *cli) createToken(ctx context.Context, s *session, f tokenFlags) error {
	req := api.TokenRequest{Kind: f.kind, Name: f.name, For: f.owner, Verbs: f.verbs, Namespaces: f.namespaces}
	if req.Kind != "api" && req.Kind != "worker" && req.Kind != "node" {
		return usage("--kind %s: use api, worker or node", f.kind)
	}
	if req.Name == "" {
		req.Name = f.kind + "-" + time.Now().UTC().Format("2006-01-02")
		if f.owner != "" {
			req.Name = f.owner + "-" + req.Name
		}
	}
	if f.expires != "never" {
		d, err := workflow.ParseDuration(f.expires)
		if err != nil || d <= 0 {
			return usage("--expires %s: use a duration such as 90d, or never", f.expires)
		}
		req.Expires = &api.Time{Time: time.Now().UTC().Add(time.Duration(d))}
	} else {
		req.NeverExpires = f.kind == "api" // tokens of the other kinds never expire by default
	}
	if f.out != "" { // the file is opened before the token is made, so that the token cannot be lost
		file, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return hint(err, "the file must not exist yet")
		}
		defer file.Close()
	}
	t, err := s.CreateToken(ctx, req)
	if err != nil {
		if f.out != "" {
			_ = os.Remove(f.out) // the file is empty, and would prevent another try
		}
		return err
	}
	if f.out != "" {
		if err := os.WriteFile(f.out, []byte(t.Secret+"\n"), 0o600); err != nil {
			return err
		}
		c.say("token %s of the kind %s is in %s%s", t.Name, t.Kind, f.out, until(t.ExpiresAt))
		t.Secret = ""
	}
	return one(c, t, t.Name, func() error {
		if f.out == "" {
			c.say("token %s of the kind %s%s; it is not shown again:", t.Name, t.Kind, until(t.ExpiresAt))
			fmt.Fprintln(c.out, t.Secret)
		}
		return nil
	})
}

// until says how long a token stays valid.
func until(end *api.Time) string {
	if end == nil {
		return ", until it is revoked"
	}
	return ", until " + end.UTC().Format(time.DateOnly)
}

func (c *cli) tokenListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the tokens, including revoked ones", Args: cobra.NoArgs,
		Example: "  skein token list",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.Tokens(ctx)
			if err != nil {
				return err
			}
			return show(c, page.Items, func(t api.Token) string { return t.Name }, []column[api.Token]{
				{head: "ID", get: func(t api.Token) string { return strconv.FormatInt(t.ID, 10) }},
				{head: "NAME", get: func(t api.Token) string { return t.Name }},
				{head: "KIND", get: func(t api.Token) string { return t.Kind }},
				{head: "USER", get: func(t api.Token) string { return orDash(text(t.User)) }},
				{head: "STATE", get: func(t api.Token) string { return c.state(t.State) }},
				{head: "CREATED", get: func(t api.Token) string { return c.when(&t.CreatedAt) }},
				{head: "BY", get: func(t api.Token) string { return t.CreatedBy }},
				{head: "EXPIRES", get: func(t api.Token) string { return c.when(t.ExpiresAt) }},
				{head: "MADE WITH", get: func(t api.Token) string { return orDash(idText(t.Parent)) }},
				{head: "REPLACED BY", get: func(t api.Token) string { return orDash(idText(t.ReplacedBy)) }},
			})
		})),
	}
}

// idText returns an ID as text, or "" if there is none.
func idText(id *int64) string {
	if id == nil {
		return ""
	}
	return strconv.FormatInt(*id, 10)
}

func (c *cli) tokenRevokeCmd() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME|ID", Short: "Revoke a token", Args: cobra.ExactArgs(1),
		Long: `Revokes a token and all tokens that were made with it. Every node refuses them within five seconds. A name
selects the valid token of that name, and also the tokens that it has replaced and that are still valid. An ID
selects one token.`,
		Example: "  skein token revoke rack-7",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			all, err := tokensOf(ctx, s, args[0])
			if err != nil {
				return err
			}
			var newest api.Token
			var failed []error
			for i, is := range slices.Backward(all) {
				last := i == len(all)-1
				if is.State == "expired" && !last { // a token that was replaced has already ended
					continue
				}
				t, err := s.RevokeToken(ctx, is.ID)
				switch {
				case err != nil: // the other tokens are still revoked
					failed = append(failed, fmt.Errorf("token %s (%d): %w", is.Name, is.ID, err))
				case last:
					newest = t
				default:
					c.say("token %s (%d), which was replaced, is revoked", t.Name, t.ID)
				}
			}
			if newest.ID == 0 {
				return errors.Join(failed...)
			}
			return errors.Join(append(failed, one(c, newest, newest.Name, func() error {
				c.say("token %s (%d) is revoked", newest.Name, newest.ID)
				return nil
			}))...)
		})),
	}
}

func (c *cli) tokenLocalCmd() *cobra.Command {
	return &cobra.Command{
		Use: "local", Short: "Print the token of your node on this machine", Args: cobra.NoArgs,
		Long: `Prints the local token, which a node makes at each start for the programs of its user. Commands, clients and
workers of that user find it by themselves. Other programs send it as Authorization: Bearer TOKEN. It is valid
at this node until the node ends. A node that other machines can reach has no local token.`,
		Example: `  curl -H "Authorization: Bearer $(skein token local)" http://127.0.0.1:8080/api/v1/runs`,
		RunE:    c.do(func(ctx context.Context, _ []string) error { return localToken(ctx, c) }),
	}
}

// localToken prints the token of the node that holds the data folder, or of the server that was named.
func localToken(ctx context.Context, c *cli) error {
	urls := c.servers()
	if len(urls) == 0 {
		h, err := datadir.Find(ctx, c.cfg.Data)
		if err != nil {
			return err
		}
		if h == nil || h.Address == "" {
			return hint(&said{errNotFound, localtoken.ErrNone.Error()}, "start one: skein server; or name its data folder: --data DIR")
		}
		urls = []string{h.Address}
	}
	token, err := localtoken.Of(c.cfg.Data, urls[0])
	if errors.Is(err, localtoken.ErrNone) {
		return hint(&said{errNotFound, urls[0] + " has no local token for this user"},
			"ask the user who runs the node for a token: skein token create --kind api --out FILE")
	}
	if err != nil {
		return err
	}
	return one(c, map[string]string{"address": urls[0], "token": token}, token, func() error {
		fmt.Fprintln(c.out, token)
		return nil
	})
}
