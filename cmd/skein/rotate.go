package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

func tokenRotateCmd(c *cli) *cobra.Command {
	grace, out := "24h", ""
	cmd := &cobra.Command{
		Use: "rotate NAME|ID", Short: "Replace a token by a new one with the same rights; the new one is shown once", Args: cobra.ExactArgs(1),
		Long: `Creates a new token with the name, the rights and the end of an old one, and prints it once. The old token stays
valid for --grace, so that its holders can replace it, but not beyond its original end. The new token keeps this
end. To get a later end, create another token (skein token create). You need the rights that skein token create
needs, and if you lose a right later, the new token loses it, too.

Tokens that were made with the old token end with it. If you call this command with a token, the new token also
ends with that token; sign in (skein login) to avoid this. A name selects the newest token of that name.

--out writes a new file with mode 0600, which replaces the old file and keeps its owner.`,
		Example: "  skein token rotate ci --out /etc/skein/ci.token\n  skein token rotate rack-7 --grace 0s",
		RunE: c.do(c.writing(func(ctx context.Context, s *session, args []string) error {
			return rotateToken(ctx, c, s, args[0], grace, out)
		})),
	}
	cmd.Flags().StringVar(&grace, "grace", grace, "time for which the old token stays valid, at most 7d; 0s: it ends at once")
	cmd.Flags().StringVar(&out, "out", "", "file for the new token, readable by its owner only, instead of the terminal; an existing file is replaced")
	return cmd
}

func rotateToken(ctx context.Context, c *cli, s *session, name, grace, out string) error {
	page, err := s.Tokens(ctx)
	if err != nil {
		return err
	}
	all, err := tokensNamed(page.Items, name)
	if err != nil {
		return err
	}
	old := all[len(all)-1]
	file, err := openSecret(out)
	if err != nil {
		return err
	}
	defer file.Discard()
	t, err := skein.RotateToken(ctx, s.Client, old.ID, api.RotateRequest{Grace: grace})
	if errors.Is(err, skein.ErrUnreachable) || errors.Is(err, skein.ErrUnavailable) || ctx.Err() != nil && err != nil {
		return hint(err, "the token may have been replaced nevertheless; then its new secret is lost: skein token list; rotate the new token again")
	}
	if err != nil {
		return err
	}
	failed := file.keep(&t.Secret, "the token is replaced, but the new one was not written to the file and was printed instead")
	return errors.Join(one(c, t, t.Name, func() error {
		ends := "counts no longer"
		if t.Old.ExpiresAt != nil && t.Old.State == "valid" {
			ends = "counts until " + t.Old.ExpiresAt.UTC().Format(time.DateTime) + " UTC"
		}
		if n := madeWith(page.Items, old.ID); n > 0 {
			ends += fmt.Sprintf("; %d valid tokens made with the old one end with it", n)
		}
		if t.Secret == "" {
			c.say("token %s (%d)%s is in %s; the old one (%d) %s", t.Name, t.ID, until(t.ExpiresAt), file.path(), t.Old.ID, ends)
			return nil
		}
		c.say("token %s (%d)%s; the old one (%d) %s. The new one is not shown again:", t.Name, t.ID, until(t.ExpiresAt), t.Old.ID, ends)
		fmt.Fprintln(c.out, t.Secret)
		return nil
	}), failed)
}

// madeWith counts the valid tokens that were made with a token, directly or through other tokens.
func madeWith(all []api.Token, id int64) (n int) {
	below := map[int64]bool{id: true}
	for _, t := range all { // a token has a higher number than its maker
		if t.Parent != nil && below[*t.Parent] {
			below[t.ID] = true
			if t.State == "valid" {
				n++
			}
		}
	}
	return n
}

// tokensOf reads the tokens with a name from the server, as tokensNamed selects them.
func tokensOf(ctx context.Context, s *session, name string) ([]api.Token, error) {
	page, err := s.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	return tokensNamed(page.Items, name)
}

// tokensNamed returns the tokens with a name that are not revoked, the newest last. There may be several,
// because a replaced token has the same name as its successor. If there are none, it returns the token whose
// ID is that text.
func tokensNamed(all []api.Token, name string) (found []api.Token, err error) {
	for _, t := range all {
		if t.Name == name && t.RevokedAt == nil {
			found = append(found, t)
		}
	}
	for _, t := range all {
		if len(found) == 0 && strconv.FormatInt(t.ID, 10) == name {
			return []api.Token{t}, nil
		}
	}
	if len(found) == 0 {
		return nil, hint(&said{errNotFound, "there is no token " + name}, "skein token list")
	}
	return found, nil
}
