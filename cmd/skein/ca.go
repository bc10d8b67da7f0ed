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
	}, &cobra.Command{
		Use: "rotate", Short: "Change the root", Args: cobra.NoArgs,
		Long: `Makes a new root. Every certificate that is issued or renewed from now on is of the new root. Certificates of the old one count
until the last of them has ended: a day by default (certificate_life), or longer if a node has issued one that lasts longer. After that
the old root is trusted no more. Nothing is restarted. There is no quicker end.`,
		Example: "  skein ca rotate",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, _ []string) error {
			a, err := skein.RotateAuthority(ctx, s.Client)
			if err != nil {
				return err
			}
			return showRoots(c, a)
		})),
	})
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
