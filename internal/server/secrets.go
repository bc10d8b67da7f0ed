package server

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"skein.dev/skein/internal/sealed"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// namespaceOK matches the namespaces that the grammar of workflows allows.
var namespaceOK = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// vault are the routes of secrets.
type vault struct{ book *sealed.Book }

func secretRoutes(s *Server, secrets tag) {
	v := vault{s.cfg.Sealed}
	route(s, secrets.get("/secrets", "list-secrets", "List the secrets by namespace and name, without their values"), v.list)
	route(s, secrets.put("/secrets/{ns}/{name}", "set-secret", "Set the value of a secret; attempts that begin later get it"), v.set)
	route(s, secrets.delete("/secrets/{ns}/{name}", "delete-secret", "Remove a secret; tasks that use it fail to start"), v.delete)
	route(s, secrets.verb("/keys:rotate", "rotate-key", "Change the key that seals the secrets, in steps"), v.rotate)
}

// refusedSecret translates the errors of package sealed.
func refusedSecret(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sealed.ErrNotFound):
		return notFound("%s", err)
	case errors.Is(err, sealed.ErrInvalid):
		return invalid("%s", err)
	case errors.Is(err, sealed.ErrFull), errors.Is(err, sealed.ErrBusy):
		return fail(http.StatusConflict, api.ProblemConflict, "%s", err)
	case errors.Is(err, sealed.ErrKey):
		return fail(http.StatusServiceUnavailable, api.ProblemSecretKey, "%s", err)
	}
	return unread(err)
}

type listSecretsIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only secrets of this namespace."`
}

func (v vault) list(ctx context.Context, in *listSecretsIn) (*jsonOut[api.List[api.Secret]], error) {
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	ns, name, ok := strings.Cut(text, "/")
	if text != "" && !ok || in.Namespace != "" && text != "" && ns != in.Namespace {
		return nil, invalid("cursor is not the next of a page of this list")
	}
	if text == "" {
		ns = in.Namespace
	}
	all, err := v.book.Store.SecretList(ctx, ns, name, in.Limit+1)
	if err != nil {
		return nil, unread(err)
	}
	items := []api.Secret{}
	for i := range all {
		s := &all[i]
		// secrets of Skein itself come after all others
		if in.Namespace != "" && s.Namespace != in.Namespace || !namespaceOK.MatchString(s.Namespace) {
			break
		}
		if sealed.Reserved(s.Name) {
			continue
		}
		if len(items) == in.Limit {
			last := &items[len(items)-1]
			return list(items, last.Namespace+"/"+last.Name), nil
		}
		items = append(items, secretShown(s))
	}
	return list(items, ""), nil
}

func secretShown(s *store.Secret) api.Secret {
	return api.Secret{Namespace: s.Namespace, Name: s.Name, Version: s.Version, User: s.By,
		CreatedAt: api.Time{Time: s.Created.Time()}, ModifiedAt: api.Time{Time: s.Modified.Time()}}
}

type SecretPath struct {
	Namespace string `path:"ns" maxLength:"63"`
	Name      string `path:"name" maxLength:"100"`
}

type setSecretIn struct {
	SecretPath
	Body api.SecretRequest
}

func (v vault) set(ctx context.Context, in *setSecretIn) (*jsonOut[api.Secret], error) {
	if !namespaceOK.MatchString(in.Namespace) {
		return nil, invalid("%.63q cannot be the name of a namespace", in.Namespace)
	}
	s, err := v.book.Set(ctx, in.Namespace, in.Name, []byte(in.Body.Value), userOf(ctx))
	if err != nil {
		return nil, refusedSecret(err)
	}
	return &jsonOut[api.Secret]{Body: secretShown(&s)}, nil
}

func (v vault) delete(ctx context.Context, in *SecretPath) (*struct{}, error) {
	if !namespaceOK.MatchString(in.Namespace) {
		return nil, invalid("%.63q cannot be the name of a namespace", in.Namespace)
	}
	return nil, refusedSecret(v.book.Delete(ctx, in.Namespace, in.Name))
}

type rotateIn struct{ Body api.KeyRotateRequest }

func (v vault) rotate(ctx context.Context, in *rotateIn) (*jsonOut[api.KeyRotation], error) {
	r, err := v.book.Rotate(ctx, !in.Body.Continue)
	if err != nil {
		return nil, refusedSecret(err)
	}
	return &jsonOut[api.KeyRotation]{Body: api.KeyRotation{Key: r.Key, Sealed: r.Sealed, Left: r.Left}}, nil
}
