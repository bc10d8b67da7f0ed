package main

import (
	"context"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func caCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "ca", Short: "Show or change the internal certificate authority of workers and nodes",
		Example: "  skein ca show\n  skein ca rotate",
	}
	needsVerb(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "Show the root certificates", Args: cobra.NoArgs,
		Long: `Shows the root certificates. There is one, or two during a change. On SQLite, the first invitation of a worker
creates the authority. In a cluster, a node with TLS creates it when it starts. The key of the authority is
encrypted like a secret of tasks, so the nodes need the key of the secrets (--secret-key-file in a cluster).`,
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
		Use: "rotate", Short: "Change the root certificate", Args: cobra.NoArgs,
		Long: `Makes a new root certificate. The new root signs every certificate that is issued or renewed afterwards.
Certificates of the old root stay valid until they expire: after a day by default (certificate_life), or later
if a node has issued a certificate with a longer life. Then the old root is no longer trusted. Nothing has to be
restarted.

If others may know the key of the root, --now ends the old root at once, also during a change. Nodes get
certificates of the new root within seconds. All certificates and invitations of workers end: invite each worker
again (skein worker invite), and let it join again. A worker that stays away longer than the setting lag counts
as dead, and its attempts run again elsewhere. If others may also know the key of the secrets, first run skein
key rotate.`,
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
	cmd.Flags().BoolVar(&now, "now", false, "end the old root at once; every worker must join again")
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

// nodeRevokeCmd makes the command that ends the certificate of a node.
func nodeRevokeCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke the certificate that a node shows to other nodes", Args: cobra.ExactArgs(1),
		Long: `Revokes the certificate of a node. Use it if others may know the certificate's key. Every node refuses the
certificate within five seconds. The node notices this within ten seconds, makes another key, and continues.
Until then other nodes accept its calls only if it also has a token of the kind node. To keep a machine out of
the cluster, change the password of the database and the key of the secrets.`,
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
