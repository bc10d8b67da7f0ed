package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"skein.dev/skein/internal/app"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

// inviteFlags holds the flags of worker invite.
type inviteFlags struct {
	groups, namespaces []string
	slots, uses        int32
	expires            string
}

func workerInviteCmd(c *cli) *cobra.Command {
	var f inviteFlags
	cmd := &cobra.Command{
		Use: "invite NAME", Short: "Invite a worker; prints the command that lets it join", Args: cobra.ExactArgs(1),
		Long: `Creates an invitation and prints the command with which a worker of that name joins. The worker makes a key and
gets a certificate, which is valid for a day and which it renews by itself. With the certificate, the worker may
register under this name, in these groups, and with at most that number of slots. An invitation is used up when
the worker has joined. If the answer was lost, the worker can repeat the same command.

With --namespace, the worker runs only tasks of these namespaces that name its group or its name.
A name that ends in * invites --uses workers whose names begin with the text before the *.

You need every verb in all namespaces, as for a token of the kind worker. The nodes need TLS (--tls-cert).`,
		Example: "  skein worker invite rack-7 --group etl --slots 16\n  skein worker invite 'rack-*' --uses 20 --expires 8h\n  skein worker invite shop-1 --group shop --namespace shop",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			return inviteWorker(ctx, c, s, args[0], f)
		})),
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.groups, "group", nil, "groups to which the worker may belong (default none)")
	fl.StringSliceVar(&f.namespaces, "namespace", nil, "namespaces whose tasks the worker runs (default all)")
	fl.Int32Var(&f.slots, "slots", 0, "largest number of slots of the worker (default: no limit)")
	fl.Int32Var(&f.uses, "uses", 1, "number of workers that may join with the invitation")
	fl.StringVar(&f.expires, "expires", "1h", "time for which the invitation can be used, at most 7d")
	notSettings(fl, "group", "slots")
	return cmd
}

func inviteWorker(ctx context.Context, c *cli, s *session, name string, f inviteFlags) error {
	d, err := workflow.ParseDuration(f.expires)
	if err != nil || d <= 0 {
		return usage("--expires %s: use a duration such as 1h", f.expires)
	}
	t, err := s.CreateToken(ctx, api.TokenRequest{Kind: "invite", Name: name, Groups: f.groups, Namespaces: f.namespaces, Slots: f.slots, Uses: f.uses,
		Expires: &api.Time{Time: time.Now().UTC().Add(time.Duration(d))}})
	if err != nil {
		return err
	}
	return one(c, t, t.Name, func() error {
		server := "https://NODE:8443"
		if urls := c.servers(); len(urls) > 0 {
			server = urls[0]
		}
		said := name
		if strings.HasSuffix(name, "*") {
			said = strings.TrimSuffix(name, "*") + "NAME"
		}
		c.say("run this where the worker is to run, within %s; it is not shown again:", f.expires)
		if len(c.servers()) == 0 {
			c.say("(put the address of a node with a certificate in the place of %s; workers cannot join a node without one)", server)
		}
		fmt.Fprintf(c.out, "skein worker join --server %s --name %s --invitation %s --authority %s\n", server, said, t.Secret, t.Authority)
		return nil
	})
}

func workerJoinCmd(c *cli) *cobra.Command {
	var by joining.Invitation
	cmd := &cobra.Command{
		Use: "join", Short: "Let this machine's worker join with an invitation", Args: cobra.NoArgs,
		Long: `Uses an invitation: it makes a key, gets a certificate, and keeps both in the data folder (access/worker.json).
Afterwards skein worker --data DIR uses the name, groups, slots and nodes of the invitation, and renews the
certificate by itself. If the certificate expires while the worker is away, the worker needs another invitation.

--authority is the fingerprint of the nodes' own certificate authority, and replaces --ca-cert. If the answer
was lost, run the command again. An earlier certificate of the worker stays valid until the nodes have issued
the new one. The clocks of nodes and workers may differ by five minutes.`,
		Example: "  skein worker join --server https://node-1:8443 --name rack-7 --invitation skein_invite_… --authority sha256:… --data /srv/skein",
		RunE: c.do(func(ctx context.Context, _ []string) error {
			if by.Secret == "" {
				return usage("give the invitation: --invitation TEXT; make one: skein worker invite NAME")
			}
			m, err := app.JoinWorker(ctx, c.cfg, by)
			if errors.Is(err, config.ErrNoServer) {
				return usage("%v", err)
			}
			if err != nil {
				return err
			}
			c.say("worker %s has joined; its certificate is valid until %s and renews itself; start it: skein worker --data %s", m.Name, m.Expires.UTC().Format(time.DateTime)+" UTC", c.cfg.Data)
			return nil
		}),
	}
	f := cmd.Flags()
	f.String("name", "", "name of the worker, as in the invitation (default: the name of the host)")
	f.StringVar(&by.Secret, "invitation", "", "the invitation; it can be used once")
	f.StringVar(&by.Fingerprint, "authority", "", "fingerprint of the nodes' certificate authority (default: verify the nodes' certificate as other clients do)")
	return cmd
}

func workerListCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the workers that were invited, with their certificates", Args: cobra.NoArgs,
		Long: `Lists the invitations that can still be used, and the certificates of workers that have joined. It does not list
workers that call with a token. skein node list shows all attached workers.`,
		Example: "  skein worker list\n  skein worker list -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			page, err := s.Tokens(ctx)
			if err != nil {
				return err
			}
			items := []api.Token{}
			for _, t := range page.Items {
				if t.Kind == "certificate" && t.State != "revoked" || t.Kind == "invite" && t.State == "valid" && t.Used < t.Uses {
					items = append(items, t)
				}
			}
			return show(c, items, func(t api.Token) string { return t.Worker }, []column[api.Token]{
				{head: "WORKER", get: func(t api.Token) string { return t.Worker }},
				{head: "STATE", get: func(t api.Token) string {
					if t.Kind == "invite" {
						return c.state("invited")
					}
					return c.state(t.State)
				}},
				{head: "GROUPS", get: func(t api.Token) string { return orDash(strings.Join(t.Groups, ",")) }},
				{head: "NAMESPACES", get: func(t api.Token) string {
					if len(t.Namespaces) == 0 {
						return "all"
					}
					return strings.Join(t.Namespaces, ",")
				}},
				{head: "SLOTS", get: func(t api.Token) string {
					if t.Slots == 0 {
						return "-"
					}
					return strconv.Itoa(int(t.Slots))
				}},
				{head: "BY", get: func(t api.Token) string { return t.CreatedBy }},
				{head: "UNTIL", get: func(t api.Token) string { return c.when(t.ExpiresAt) }},
			})
		})),
	}
}

func workerRevokeCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a worker's certificate, and the invitations for its name", Args: cobra.ExactArgs(1),
		Long: `Revokes the certificate of a worker and the invitations for its name in one step. It also revokes the invitation
with which the worker joined, if others could still join with it (such as rack-*). Every node refuses the worker
within five seconds. Its attempts run again elsewhere when it counts as dead, after the time of the setting lag.
Other workers that joined with the same invitation stay. The name is free for another invitation.`,
		Example: "  skein worker revoke rack-7",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			page, err := s.Tokens(ctx)
			if err != nil {
				return err
			}
			// The certificate comes first, because its invitations end with it in the same transaction.
			sort.SliceStable(page.Items, func(i, j int) bool { return page.Items[i].Kind < page.Items[j].Kind })
			revoked := 0
			for _, t := range page.Items {
				if t.Worker != args[0] || t.State == "revoked" {
					continue
				}
				if _, err := s.RevokeToken(ctx, t.ID); err != nil {
					return err
				}
				revoked++
				what := "the certificate of the worker"
				if t.Kind == "invite" {
					what = "an invitation of the worker"
				}
				c.say("%s %s is revoked", what, t.Worker)
			}
			if revoked == 0 {
				return hint(&said{errNotFound, "there is no certificate or invitation of a worker " + args[0]}, "list them: skein worker list")
			}
			return nil
		})),
	}
}
