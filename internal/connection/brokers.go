package connection

import (
	"context"
	"errors"

	"skein.dev/skein/internal/secret"
)

// brokers is a connection to a broker. Its client is in skein-plus.
type brokers struct {
	config *Config
	is     interface {
		Check() error
		Secrets() []*secret.Text
	}
}

func (b *brokers) check() error { return b.is.Check() }

// use lets skein-plus sign in to the broker.
func (b *brokers) use(ctx context.Context, m *Means) (string, error) {
	if m.Plus == nil {
		return "", errors.New("this program cannot test connections to brokers")
	}
	resolved, err := b.config.Resolved(func(name string) (string, error) { return m.Secret(ctx, name) })
	if err != nil {
		return "", err
	}
	return m.Plus(ctx, b.config.Type(), resolved)
}
