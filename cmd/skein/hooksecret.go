package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func scheduleSecretCmd(c *cli) *cobra.Command {
	grace, out := "24h", ""
	cmd := &cobra.Command{
		Use: "secret WORKFLOW/TRIGGER", Short: "Make the secret of a webhook, or replace it; it is shown once", Args: cobra.ExactArgs(1),
		Long: `Makes the secret with which the sender of a webhook signs its calls, and prints it once. No command and no call
shows it again. The workflow file names no secret for this webhook: webhook: {}. The secret belongs to this trigger
of this workflow, and ends when the workflow is deleted.

If the webhook has a secret, it stays valid for --grace, so that the sender can be given the new one. At most two
earlier secrets are valid at a time; --grace 0s ends all of them. You need the verb secret.write in the namespace.

--out writes a new file with mode 0600, which replaces the old file and keeps its owner.
` + triggerRefHelp,
		Example: "  skein schedule secret orders/hook\n  skein schedule secret orders/hook --grace 0s --out hook.secret",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			r, err := findTrigger(ctx, s, args[0])
			if err != nil {
				return err
			}
			return hookSecret(ctx, c, s, r, grace, out)
		})),
	}
	cmd.Flags().StringVar(&grace, "grace", grace, "time for which the earlier secret stays valid, at most 7d; 0s: it ends at once")
	cmd.Flags().StringVar(&out, "out", "", "file for the secret, readable by its owner only, instead of the terminal; an existing file is replaced")
	return cmd
}

func hookSecret(ctx context.Context, c *cli, s *session, r triggerRef, grace, out string) error {
	file, err := openSecret(out)
	if err != nil {
		return err
	}
	defer file.Discard()
	is, err := skein.RotateHookSecret(ctx, s.Client, r.workflow, r.trigger, api.RotateRequest{Grace: grace})
	if errors.Is(err, skein.ErrUnreachable) || errors.Is(err, skein.ErrUnavailable) || ctx.Err() != nil && err != nil {
		return hint(err, "the secret may exist nevertheless, but its value is lost: run the command again to make another one")
	}
	if err != nil {
		return noSuchTrigger(ctx, s, r, err)
	}
	failed := file.keep(&is.Secret, "the secret is made, but it was not written to the file and was printed instead")
	name := is.Workflow + "/" + is.Trigger
	return errors.Join(one(c, is, name, func() error {
		ends := ""
		if len(is.Earlier) > 0 {
			ends = "; earlier ones are valid until " + is.Earlier[0].UTC().Format(time.DateTime) + " UTC"
		}
		if is.Secret == "" {
			c.say("the secret of webhook %s is in %s%s", name, file.path(), ends)
			return nil
		}
		c.say("webhook %s has a new secret%s. It is not shown again:", name, ends)
		fmt.Fprintln(c.out, is.Secret)
		return nil
	}), failed)
}
