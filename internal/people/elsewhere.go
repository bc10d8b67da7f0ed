package people

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/store"
)

// Elsewhere returns the name of a person in a directory, and whether the directory must check the sign-in. A
// name of a user who does not sign in by the directory belongs to that user, so no password of a local
// account is sent to the directory. NAME@DIRECTORY always means NAME in the directory. source is the
// directory in the form of store.Identity.
func (p *Passwords) Elsewhere(ctx context.Context, name, source string) (there string, asked bool, err error) {
	_, directory, _ := strings.Cut(source, ":")
	if short, ok := strings.CutSuffix(name, "@"+directory); ok && short != "" {
		return short, true, nil
	}
	all, err := p.store.Rights(ctx)
	if err != nil {
		return "", false, err
	}
	folded, err := access.Name(name)
	if err != nil {
		return name, true, nil
	}
	i := slices.IndexFunc(all.Principals, func(o store.Principal) bool { return o.Name == folded })
	return name, i < 0 || SourceOf(&all, all.Principals[i].ID) == source, nil
}

// Try counts an attempt to sign in that another service checks, as Verify counts attempts with passwords.
// check returns ErrWrong if the attempt has failed. Any other error means that the attempt was not made.
func (p *Passwords) Try(name string, from netip.Addr, check func() error) error {
	folded, err := access.Name(name)
	if err != nil {
		folded = ""
	}
	try, err := p.tries.take(folded, from, time.Now())
	if err != nil {
		return err
	}
	err = check()
	if !errors.Is(err, ErrWrong) {
		try.undo(err == nil)
	}
	return err
}
