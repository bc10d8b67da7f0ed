package doctor

import (
	"context"
	"errors"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
)

// checkSecretKey says whether this node has the key of the secrets.
func checkSecretKey(ctx context.Context, cfg *config.Config, st store.Secrets) Check {
	c := Check{Name: "secrets", State: Good}
	is, err := dbadmin.Secrets(cfg, st).Check(ctx)
	switch {
	case errors.Is(err, sealed.ErrKey):
		c.State, c.Found, c.Remedy = Bad, err.Error(), "give this node the file with key "+is.ID+": --secret-key-file FILE; tasks that use a secret fail here until then"
	case err != nil:
		c.State, c.Found = Warning, err.Error()
	case is.ID == "":
		c.Found = "there is none yet"
	default:
		c.Found = "sealed with key " + is.ID + ", which this node has"
	}
	return c
}
