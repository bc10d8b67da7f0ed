package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/authority"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/home"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

const (
	// inviteLife and inviteMax are the default and the longest time for which an invitation is valid.
	inviteLife = time.Hour
	inviteMax  = 7 * 24 * time.Hour
	// invitePrefix begins the names of invitations. The worker's name and a random text follow.
	invitePrefix = "invitation "
)

// takenPrefix reports whether the name of a token has the form of a name of invitations or certificates.
func takenPrefix(name string) bool {
	return strings.HasPrefix(name, invitePrefix) || strings.HasPrefix(name, auth.WorkerName("")) || strings.HasPrefix(name, store.NodeTokenPrefix)
}

// inviteWorker makes an invitation. Its caller needs the same rights as for a token of a worker.
func inviteWorker(ctx context.Context, s *Server, req *api.TokenRequest) (*jsonOut[api.NewToken], error) {
	if req.Kind != store.TokenInvite {
		return nil, invalid("groups, slots and uses are those of an invitation; a token of the kind %s has none", req.Kind)
	}
	if s.cfg.Authority == nil {
		return nil, fail(http.StatusServiceUnavailable, api.ProblemUnavailable, "this process makes no invitations; ask a running node")
	}
	info, err := s.engine.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Format < info.Known {
		return nil, fail(http.StatusConflict, api.ProblemConflict, "a node of an earlier version is present, which knows no certificates; upgrade all nodes first")
	}
	now, err := s.engine.Clock(ctx)
	if err != nil {
		return nil, err
	}
	rights, err := s.cfg.Access.Rights(ctx)
	if err != nil {
		return nil, unread(err)
	}
	secret := auth.NewSecret(store.TokenInvite)
	t, err := invitation(ctx, req, now)
	if err != nil {
		return nil, err
	}
	if t.Hash, err = auth.HashSecret(secret); err != nil {
		return nil, err
	}
	if by, held := auth.Holder(ctx); held && by.Kind == store.TokenAPI {
		end, err := deep(ctx, s.cfg.Tokens, &by)
		if err != nil {
			return nil, err
		}
		t.Parent, t.Expires = by.ID, earlier(t.Expires, end)
	}
	if err := s.cfg.Authority.Make(withDetail(ctx, "the internal certificate authority is made"), userOf(ctx)); err != nil {
		return nil, refusedAuthority(err)
	}
	noteAudit(ctx, "", fmt.Sprintf("invitation of the worker %s, groups %s, namespaces %s, slots %d, uses %d", req.Name, cmp.Or(t.Groups, "none"), t.Namespaces, t.Slots, t.Uses))
	t, err = s.cfg.Tokens.AddToken(ctx, t)
	switch {
	case errors.As(err, new(*store.QuotaError)):
		return nil, err
	case errors.Is(err, store.ErrRefused):
		return nil, fmt.Errorf("%w: there are already %d tokens, invitations and certificates, which is the limit; revoke those that are no longer needed: Skein deletes them after retention_records_age",
			errkind.ErrConflict, store.TokensMax)
	case err != nil:
		return nil, unread(err)
	}
	return &jsonOut[api.NewToken]{Body: api.NewToken{Token: tokenOf(&t, &rights, now), Secret: secret, Authority: issuer(s.cfg.Authority)}}, nil
}

// invitation returns the row of a new invitation, without its hash.
func invitation(ctx context.Context, req *api.TokenRequest, now dag.Micros) (t store.Token, err error) {
	if err := checkInvite(req); err != nil {
		return t, err
	}
	t = store.WholeToken(store.TokenInvite, "", nil)
	t.By, t.Uses, t.Slots = userOf(ctx), max(req.Uses, 1), req.Slots
	t.Groups = strings.Join(req.Groups, " ")
	if len(req.Namespaces) > 0 {
		t.Namespaces = strings.Join(req.Namespaces, " ")
	}
	id := make([]byte, 4)
	rand.Read(id)
	t.Name = invitePrefix + req.Name + " " + hex.EncodeToString(id)
	p, at := auth.Rights(ctx)
	if err := access.MayGive(p, access.Whole().Verbs, access.Everywhere, at); err != nil {
		return t, fail(http.StatusForbidden, api.ProblemForbidden, "a worker belongs to the cluster: %s", err)
	}
	if by, held := auth.Holder(ctx); held {
		t.Maker = cmp.Or(by.Maker, by.Principal)
	}
	t.Expires = now + dag.Micros(inviteLife.Microseconds())
	if req.Expires != nil {
		if t.Expires = dag.Micros(req.Expires.UnixMicro()); t.Expires <= now || t.Expires > now+dag.Micros((inviteMax+time.Minute).Microseconds()) {
			return t, invalid("expires_at: an invitation is valid for at most %v from now", inviteMax)
		}
	}
	return t, nil
}

// checkInvite returns an error for fields that an invitation cannot have.
func checkInvite(req *api.TokenRequest) error {
	name := strings.TrimSuffix(req.Name, "*")
	switch {
	case name == "" || strings.ContainsAny(name, "*/") || !home.Plain(name):
		return invalid("name: %.100q cannot be the name of a worker: use 1 to 100 printable characters without spaces, / and *; one * at the end stands for any text", req.Name)
	case req.NeverExpires || req.For != "" || len(req.Verbs) > 0:
		return invalid("an invitation cannot have verbs or a user, and must have an end")
	case req.Uses < 0 || req.Uses > store.TokensMax:
		return invalid("uses: give 1 to %d", store.TokensMax)
	case req.Uses > 1 && name == req.Name:
		return invalid("uses: workers have different names, so an invitation for several has a name such as rack-*")
	case req.Slots < 0:
		return invalid("slots: use 1 or more, or 0 for no bound")
	}
	for _, g := range req.Groups {
		if !home.Plain(g) {
			return invalid("groups: %.100q cannot be the name of a group", g)
		}
	}
	for _, ns := range req.Namespaces {
		if !namespaceOK.MatchString(ns) {
			return invalid("namespaces: %.63q cannot be the name of a namespace", ns)
		}
	}
	return nil
}

// nodeOf returns the name of the worker or node whose certificate a row is, or "".
func nodeOf(t *store.Token) string {
	if name, ok := strings.CutPrefix(t.Name, store.NodeTokenPrefix); ok && t.Kind == store.TokenCertificate {
		return name
	}
	return ""
}

// endsWith returns the tokens that end in the same transaction as a token. With the certificate of a worker,
// all open invitations for the worker's name end. The invitation from which the certificate was made ends,
// too, because its text may still be on the machine of the worker. If the call is cut off, either all of them
// end or none.
func endsWith(ctx context.Context, s *Server, id int64) (with []int64, err error) {
	all, err := s.cfg.Tokens.TokenList(ctx)
	if err != nil {
		return nil, unread(err)
	}
	i := slices.IndexFunc(all, func(t store.Token) bool { return t.ID == id && t.Kind == store.TokenCertificate })
	if i < 0 || nodeOf(&all[i]) != "" {
		return nil, nil
	}
	var names []string
	for k := range all {
		inv := &all[k]
		if inv.Kind != store.TokenInvite || inv.Revoked != 0 || inv.Used >= inv.Uses {
			continue
		}
		words := strings.Fields(inv.Name)
		if inv.ID == all[i].Invite || len(words) > 1 && auth.WorkerName(words[1]) == all[i].Name {
			with, names = append(with, inv.ID), append(names, inv.Name)
		}
	}
	if len(names) > 0 {
		noteAudit(ctx, "", all[i].Name+", and with it "+strings.Join(names, ", "))
	}
	return with, nil
}

// withDetail gives a further change of the same call an audit row with its own text.
func withDetail(ctx context.Context, detail string) context.Context {
	row := store.AuditIn(ctx)
	if row == nil {
		return ctx
	}
	of := *row
	of.Detail = detail
	return store.WithAudit(ctx, &of)
}

// issuer returns the fingerprint of the root that issues certificates.
func issuer(a *authority.Authority) string {
	for _, r := range a.Roots() {
		if r.Issues {
			return r.Fingerprint
		}
	}
	return ""
}

func refusedAuthority(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, authority.ErrNone), errors.Is(err, authority.ErrChanging):
		return fail(http.StatusConflict, api.ProblemConflict, "%s", err)
	}
	return refusedSecret(err)
}

// authorityRoutes registers the routes of the internal certificate authority.
func authorityRoutes(s *Server, tag tag) {
	route(s, tag.get("/authority", "get-authority", "Read the roots of the internal certificate authority"), func(ctx context.Context, _ *struct{}) (*jsonOut[api.Authority], error) {
		if s.cfg.Authority == nil {
			return nil, refusedAuthority(authority.ErrNone)
		}
		if err := s.cfg.Authority.Load(ctx); err != nil {
			return nil, refusedAuthority(err)
		}
		return authorityShown(s), nil
	})
	route(s, tag.verb("/authority:rotate", "rotate-authority", "Change the root of the internal certificate authority; certificates of the old root are valid until they expire"),
		func(ctx context.Context, in *rotateAuthorityIn) (*jsonOut[api.Authority], error) {
			if s.cfg.Authority == nil {
				return nil, refusedAuthority(authority.ErrNone)
			}
			if in.Now {
				return replaceAuthority(ctx, s)
			}
			noteAudit(ctx, "", "a new root; the old one counts until its certificates have ended")
			latest, err := latestEnd(ctx, s)
			if err != nil {
				return nil, err
			}
			if err := s.cfg.Authority.Rotate(ctx, userOf(ctx), latest); err != nil {
				return nil, refusedAuthority(err)
			}
			return authorityShown(s), nil
		})
}

type rotateAuthorityIn struct {
	Now bool `query:"now" doc:"The old root ends at once, because its key may be known to others. Every worker has to join again."`
}

// replaceAuthority ends the old roots first, and then all certificates and invitations of workers. If the
// call is cut off in between, the remaining rows have no effect, because no certificate of an old root is
// valid any more.
func replaceAuthority(ctx context.Context, s *Server) (*jsonOut[api.Authority], error) {
	all, err := s.cfg.Tokens.TokenList(ctx)
	if err != nil {
		return nil, unread(err)
	}
	noteAudit(ctx, "", "a new root; the old ones ended at once")
	if err := s.cfg.Authority.Replace(ctx, userOf(ctx)); err != nil {
		return nil, refusedAuthority(err)
	}
	var with []int64
	for i := range all {
		t := &all[i]
		if of := t.Kind == store.TokenInvite || t.Kind == store.TokenCertificate && nodeOf(t) == ""; of && t.Revoked == 0 {
			with = append(with, t.ID)
		}
	}
	if len(with) > 0 {
		ctx := withDetail(ctx, fmt.Sprintf("%d certificates and invitations of workers ended with the old root", len(with)))
		if err := s.cfg.Tokens.RevokeToken(ctx, with[0], with[1:]...); err != nil {
			return nil, unread(err)
		}
	}
	return authorityShown(s), nil
}

// latestEnd returns the latest end of a certificate of a worker.
func latestEnd(ctx context.Context, s *Server) (end time.Time, err error) {
	all, err := s.cfg.Tokens.TokenList(ctx)
	if err != nil {
		return end, unread(err)
	}
	for i := range all {
		if t := &all[i]; t.Kind == store.TokenCertificate && t.Revoked == 0 && t.Expires.Time().After(end) {
			end = t.Expires.Time()
		}
	}
	return end, nil
}

func authorityShown(s *Server) *jsonOut[api.Authority] {
	out := api.Authority{Roots: []api.Root{}}
	for _, r := range s.cfg.Authority.Roots() {
		is := api.Root{Fingerprint: r.Fingerprint, State: "old", MadeAt: api.Time{Time: r.Made}, ExpiresAt: api.Time{Time: r.Expires}}
		switch {
		case r.Issues:
			is.State = "issues"
		case r.Trusted:
			is.State = "trusted"
		}
		if !r.Until.IsZero() {
			is.TrustedUntil = &api.Time{Time: r.Until}
		}
		out.Roots = append(out.Roots, is)
	}
	return &jsonOut[api.Authority]{Body: out}
}
