package doctor

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dbadmin"
	"skein.dev/skein/internal/depot"
)

// objectsMax bounds the check of an object store.
const objectsMax = 15 * time.Second

// checkObjects checks whether the object stores of the settings are usable. It writes the same object that a
// node writes when it starts.
func checkObjects(ctx context.Context, cfg *config.Config) (all []Check) {
	for _, of := range []struct {
		setting string
		at      *blob.Location
	}{{"artifacts", cfg.ArtifactObjects}, {"logs", cfg.LogObjects}} {
		if of.at == nil {
			continue
		}
		c := Check{Name: "objects of " + of.setting, State: Good, Found: of.at.String() + " can be written and read, and honours conditional writes"}
		if of.at.Plain {
			c.State, c.Found = Warning, of.at.String()+" is reached without TLS: others can read what is sent"
			c.Remedy = "name an endpoint that begins with https://, unless the way to it is yours alone"
		}
		if err := probe(ctx, cfg, of.at); errors.Is(err, blob.ErrRefused) {
			c.State, c.Found = Bad, err.Error()
			c.Remedy = "correct the setting " + of.setting + " or the credentials; they need PutObject, GetObject, DeleteObject, ListBucket and the rights for multipart uploads"
		} else if err != nil {
			c.State, c.Found, c.Remedy = Warning, err.Error(), "see that the server answers: artifacts and logs wait for it"
		}
		all = append(all, c)
	}
	return all
}

func probe(ctx context.Context, cfg *config.Config, at *blob.Location) error {
	ctx, cancel := context.WithTimeout(ctx, objectsMax)
	defer cancel()
	var secret depot.Secret
	if at.Secret != "" {
		db, err := dbadmin.OpenReadOnly(ctx, cfg)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			defer db.Close()
			chain, err := dbadmin.Providers(cfg, db, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			secret = func(ctx context.Context, namespace, name string) ([]byte, error) {
				return chain.Value(ctx, namespace, name, false)
			}
		}
	}
	s, err := depot.Objects(cfg, at, secret)
	if err != nil {
		return err
	}
	return blob.Probe(ctx, s)
}
