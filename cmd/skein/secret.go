package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// secretBytesMax bounds the input for a secret, in bytes. The server decides whether a value is valid.
const secretBytesMax = 64 << 10

func secretCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "Manage secrets: values that tasks use by name, and that no call returns",
		Example: "  skein secret set shop/DB_PASSWORD < file\n  skein secret list",
	}
	needsVerb(cmd)
	cmd.AddCommand(secretSetCmd(c), secretListCmd(c), secretDeleteCmd(c))
	return cmd
}

func secretFullName(s api.Secret) string { return s.Namespace + "/" + s.Name }

func secretSetCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "set NS/NAME", Short: "Set the value of a secret, from standard input or from the terminal",
		Long: `Sets the value of a secret. On a terminal, the command asks for the value and does not show it. Otherwise it
reads standard input to its end, without the last line end. A value is 6 bytes to 64 KiB of text. Tasks of the
namespace use it as ${{ secrets.NAME }}. Attempts that start afterwards get the new value. No command and no
call shows a value again.`,
		Example: "  skein secret set shop/DB_PASSWORD\n  skein secret set shop/TLS_KEY < key.pem",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("secret", func(ctx context.Context, s *session, namespace, name string) error {
			value, err := secretValue(ctx, c)
			if err != nil {
				return err
			}
			is, err := skein.NewSecrets(s.Client).Set(ctx, namespace, name, value)
			if err != nil {
				return err
			}
			c.say("secret %s has a new value, its version is %d", secretFullName(is), is.Version)
			return nil
		}))),
	}
}

// secretValue asks for a value, or reads it from standard input.
func secretValue(ctx context.Context, c *cli) (string, error) {
	if !c.noInput && term.IsTerminal(int(c.in.Fd())) {
		return askHidden(ctx, c, "Value: ")
	}
	data, err := io.ReadAll(io.LimitReader(c.in, secretBytesMax+3))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if len(value) > secretBytesMax {
		return "", usage("the value is larger than %d bytes: put it into a file, and its key into a secret", secretBytesMax)
	}
	return value, nil
}

func secretListCmd(c *cli) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List secrets, without their values", Args: cobra.NoArgs,
		Example: "  skein secret list\n  skein secret list --namespace shop -o json",
		RunE: c.do(c.reading(func(ctx context.Context, s *session, _ []string) error {
			all, err := everyPage(func(cursor string) (api.List[api.Secret], error) {
				return skein.NewSecrets(s.Client).List(ctx, namespace, cursor, 1000)
			})
			if err != nil {
				return err
			}
			return show(c, all, secretFullName, []column[api.Secret]{
				{head: "SECRET", get: secretFullName},
				{head: "VERSION", get: func(s api.Secret) string { return strconv.FormatInt(s.Version, 10) }},
				{head: "CHANGED", get: func(s api.Secret) string { return c.when(&s.ModifiedAt) }},
				{head: "BY", get: func(s api.Secret) string { return orDash(s.User) }},
			})
		})),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "only secrets of this namespace")
	notSettings(cmd.Flags(), "namespace")
	return cmd
}

func secretDeleteCmd(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "delete NS/NAME", Short: "Remove a secret; tasks that use it fail to start",
		Example: "  skein secret delete shop/DB_PASSWORD",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: argument,
		RunE: c.do(c.writing(byName("secret", func(ctx context.Context, s *session, namespace, name string) error {
			if err := skein.NewSecrets(s.Client).Delete(ctx, namespace, name); err != nil {
				return err
			}
			c.say("secret %s/%s is removed", namespace, name)
			return nil
		}))),
	}
}

func keyCmd(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Manage the key that encrypts secrets",
		Example: "  skein key rotate",
	}
	needsVerb(cmd)
	cmd.AddCommand(keyRotateCmd(c))
	return cmd
}

func keyRotateCmd(c *cli) *cobra.Command {
	var more bool
	cmd := &cobra.Command{
		Use: "rotate", Short: "Change the key that encrypts secrets, while nodes run", Args: cobra.NoArgs,
		Long: `Changes the key that encrypts secrets, and encrypts every secret again. Work continues meanwhile, because both
keys are valid until the command has ended. A node on SQLite makes the new key itself and removes the old one at
the end.

In a cluster, first make a key with openssl rand -base64 32, and add it as the last line of the key file on
every node. Then run this command, and afterwards remove the old line from every file. If the command was
interrupted, --continue finishes its work.`,
		Example: "  skein key rotate\n  skein key rotate --continue",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, _ []string) error {
			for sealed := 0; ; more = true {
				r, err := skein.NewSecrets(s.Client).RotateKey(ctx, more)
				if err != nil {
					return err
				}
				if sealed += r.Sealed; !r.Left {
					c.say("the key of the secrets is %s; sealed again: %d", r.Key, sealed)
					c.say("earlier backups of the database still need the earlier key: keep a copy of it as long as they")
					return nil
				}
			}
		})),
	}
	cmd.Flags().BoolVar(&more, "continue", false, "finish an interrupted change")
	notSettings(cmd.Flags(), "continue")
	return cmd
}
