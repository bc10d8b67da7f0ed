package main

import (
	"context"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func caCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ca", Short: "The internal certificate authority of workers and nodes",
		Example: "  skein ca show\n  skein ca rotate",
	}
	needsVerb(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "Show its root certificates", Args: cobra.NoArgs,
		Long: `Shows the roots. There is one; during a change there are two. On SQLite the first invitation of a worker makes the authority; in a
cluster a node with TLS makes it when it starts. Its key is sealed like a secret of tasks, so the nodes need the key of the secrets
(--secret-key-file in a cluster).`,
		Example: "  skein ca show\n  skein ca show -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			a, err := skein.Authority(ctx, s.Client)
			if err != nil {
				return err
			}
			return showRoots(c, a)
		})),
	}, caRotateCmd(c))
	return cmd
}

func caRotateCmd(c *cli) *cobra.Command {
	var now bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Change the root", Args: cobra.NoArgs,
		Long: `Makes a new root. Every certificate that is issued or renewed from now on is of the new root. Certificates of the old one count
until the last of them has ended: a day by default (certificate_life), or longer if a node has issued one that lasts longer. After that
the old root is trusted no more. Nothing is restarted.

If the key of the root may be known to others, --now ends the old root at once, also during a change. Nodes make certificates of the new
root by themselves, within seconds. All certificates and invitations of workers end: invite each worker again (skein worker invite), and
let it join again. Its attempts run again elsewhere when its silence has lasted for lag. Before that, give the secrets another key if the
thief may have that one, too: skein key rotate.`,
		Example: "  skein ca rotate\n  skein ca rotate --now",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, _ []string) error {
			rotate := skein.RotateAuthority
			if now {
				rotate = skein.ReplaceAuthority
			}
			a, err := rotate(ctx, s.Client)
			if err != nil {
				return err
			}
			return showRoots(c, a)
		})),
	}
	cmd.Flags().BoolVar(&now, "now", false, "end the old root at once; every worker has to join again")
	notSettings(cmd.Flags(), "now")
	return cmd
}

func showRoots(c *cli, a api.Authority) error {
	return show(c, a.Roots, func(r api.Root) string { return r.Fingerprint }, []column[api.Root]{
		{head: "FINGERPRINT", get: func(r api.Root) string { return r.Fingerprint }},
		{head: "STATE", get: func(r api.Root) string { return c.state(r.State) }},
		{head: "MADE", get: func(r api.Root) string { return c.when(&r.MadeAt) }},
		{head: "EXPIRES", get: func(r api.Root) string { return c.when(&r.ExpiresAt) }},
		{head: "TRUSTED UNTIL", get: func(r api.Root) string { return c.when(r.TrustedUntil) }},
	})
}

// nodeRevokeCmd ends the certificate of a node.
func nodeRevokeCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "End the certificate by which a node proves its name to other nodes", Args: cobra.ExactArgs(1),
		Long: `Ends the certificate of a node, because its key may be known to others: every node refuses it within five seconds. The node notices
it within ten seconds, makes another key, and goes on; until then its calls to other nodes count only if it also has a token of the kind node. To
keep a machine out of the cluster, change the password of the database and the key of the secrets.`,
		Example: "  skein node revoke n1",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			page, err := s.Tokens(ctx)
			if err != nil {
				return err
			}
			for _, t := range page.Items {
				if t.Node != args[0] || t.State == "revoked" {
					continue
				}
				if _, err := s.RevokeToken(ctx, t.ID); err != nil {
					return err
				}
				c.say("the certificate of the node %s is revoked", t.Node)
				return nil
			}
			return hint(&said{errNotFound, "there is no certificate of a node " + args[0]}, "list them: skein token list")
		})),
	}
}
