package provider

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/secret"
)

// Errors of a Chain, in addition to those of a sealed.Book. Their texts never contain a value.
var (
	// ErrAway means that a provider does not answer now. A later call may get the value.
	ErrAway = errors.New("it does not answer")
	// ErrSlow means that the value requires a call that may take long.
	ErrSlow = errors.New("the value needs a call to a provider")
	// ErrRefused means that a provider refuses the value until people change something.
	ErrRefused = errors.New("the value cannot be used")
)

// Chain reads secrets. It first reads the sealed secrets of the database, and then calls the providers in
// their order.
type Chain struct {
	book    *sealed.Book
	sources []*source
}

// Options of a Chain.
type Options struct {
	Book     *sealed.Book
	Settings Settings
	Roots    *x509.CertPool // trusted roots for certificates of servers; nil means those of the system
	Log      *slog.Logger
}

// New makes a Chain. It calls no provider.
func New(o Options) (*Chain, error) {
	c := &Chain{book: o.Book}
	for i := range o.Settings {
		p := &o.Settings[i]
		get, check, err := reader(p, o.Roots)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		c.sources = append(c.sources, newSource(p, get, check, o.Log))
	}
	return c, nil
}

// reader returns the function that reads from a provider, and the function that checks the provider.
func reader(p *Source, roots *x509.CertPool) (get getter, check checker, err error) {
	switch p.Kind() {
	case "file":
		f := files{p.File}
		return f.get, f.check, nil
	case "env":
		e := variables{VariablePrefix + *p.Env}
		return e.get, e.check, nil
	case "command":
		c := command{p.Command}
		return c.get, c.check, nil
	}
	v, err := newVault(p.Vault, roots)
	if err != nil {
		return nil, nil, err
	}
	return v.get, v.check, nil
}

// Value returns the present value of a namespace's secret. If quick is true and the value requires a call
// that may take long, Value returns ErrSlow and makes no call.
func (c *Chain) Value(ctx context.Context, namespace, name string, quick bool) ([]byte, error) {
	value, _, err := c.book.Value(ctx, namespace, name)
	if !errors.Is(err, sealed.ErrNotFound) || !sealed.IsName(name) {
		return value, err
	}
	var without []string
	for _, s := range c.sources {
		if !s.serves(namespace) {
			continue
		}
		value, why := s.value(ctx, namespace, name, quick)
		if !errors.Is(why, secret.ErrUnknown) {
			return value, why
		}
		without = append(without, s.Name+": "+strings.TrimPrefix(why.Error(), secret.ErrUnknown.Error()+": "))
	}
	if len(without) > 0 {
		return nil, fmt.Errorf("%w, or at a provider (%s)", err, strings.Join(without, "; "))
	}
	return nil, err
}

// Checked is the result of a check of a provider.
type Checked struct {
	Name, Kind string
	Namespaces []string
	Found      string
	Err        error
}

// Check tests whether each provider could return values. The checks run concurrently, each for at most
// callMax.
func (c *Chain) Check(ctx context.Context) []Checked {
	all := make([]Checked, len(c.sources))
	done := make(chan struct{}, len(all))
	for i, s := range c.sources {
		all[i] = Checked{Name: s.Name, Kind: s.Kind(), Namespaces: s.Namespaces}
		go func() {
			all[i].Found, all[i].Err = s.checked(ctx)
			done <- struct{}{}
		}()
	}
	for range all {
		<-done
	}
	return all
}
