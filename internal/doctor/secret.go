package doctor

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// checkSecretKey reports whether this node has the key of the secrets.
func checkSecretKey(ctx context.Context, cfg *config.Config, st store.Secrets) Check {
	c := Check{Name: "secrets", State: Good}
	is, err := dbadmin.Secrets(cfg, st).Check(ctx)
	switch {
	case errors.Is(err, sealed.ErrKey):
		c.State, c.Found, c.Remedy = Bad, err.Error(), "give this node the file with key "+is.ID+": --secret-key-file FILE; tasks that use a secret fail here until then"
	case err != nil:
		c.State, c.Found = Warning, err.Error()
	case is.ID == "":
		c.Found = "no secret is set"
	default:
		c.Found = "sealed with key " + is.ID + ", which this node has"
	}
	return c
}

// checkProviders checks for each provider of secrets in the settings whether it could return values.
func checkProviders(ctx context.Context, cfg *config.Config) (all []Check) {
	chain, err := dbadmin.Providers(cfg, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return []Check{{Name: "providers of secrets", State: Bad, Found: err.Error(), Remedy: "correct secret_providers"}}
	}
	for _, is := range chain.Check(ctx) {
		c := Check{Name: "secrets of " + is.Name, State: Good, Found: is.Found + ", for " + strings.Join(is.Namespaces, ", ")}
		if is.Err != nil {
			c.State, c.Found = Warning, is.Err.Error()
			c.Remedy = "correct the setting secret_providers, or the provider: tasks of " + strings.Join(is.Namespaces, ", ") + " that use one of its secrets wait, and fail after 2 minutes"
		}
		all = append(all, c)
	}
	return all
}
