package server

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	api "skein.dev/skein/api/v1"
	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/store"
)

// localUser is on whose behalf a program calls that shows no token: it is on the machine of the node.
const localUser = "local"

type userKey struct{}

// claimMax bounds a name that a program claims, in bytes.
const claimMax = 100

// user returns on whose behalf a request is made: the name of its token, or local. What a program without a
// token says of its user is written behind that, so it is shown wherever the user is. It is never compared
// with anything.
func (s *Server) user(r *http.Request) (string, *failure) {
	if t, ok := auth.Holder(r.Context()); ok {
		return t.Name, nil
	}
	claim := r.Header.Get(api.HeaderClaimedBy)
	if claim == "" {
		return localUser, nil
	}
	odd := func(c rune) bool { return !unicode.IsPrint(c) || c == '(' || c == ')' }
	if !utf8.ValidString(claim) || len(claim) > claimMax || strings.ContainsFunc(claim, odd) {
		return "", fail(http.StatusUnprocessableEntity, api.ProblemInvalid, "%s: want at most %d bytes of printable text without parentheses",
			api.HeaderClaimedBy, claimMax)
	}
	return claimed(claim), nil
}

// claimed is how a user is stored of which only a claim is known.
func claimed(name string) string { return localUser + " (" + name + ")" }

// claimOf is the name that was claimed, of a user as it is stored; "": none.
func claimOf(user string) string {
	claim, ok := strings.CutPrefix(user, localUser+" (")
	if !ok {
		return ""
	}
	claim, _ = strings.CutSuffix(claim, ")")
	return claim
}

// runsOf returns one page of runs. A name of a user selects the runs of the token of that name, and those of
// programs without a token that claimed it.
func (s *Server) runsOf(ctx context.Context, q store.RunQuery) (engine.RunPage, error) {
	page, err := s.engine.Runs(ctx, q)
	if err != nil || q.User == "" || claimOf(q.User) != "" {
		return page, err
	}
	q.User = claimed(q.User)
	claims, err := s.engine.Runs(ctx, q)
	if err != nil {
		return claims, err
	}
	newest := func(a, b dag.RunID) int { return bytes.Compare(b[:], a[:]) }
	if newest(claims.Next, page.Next) < 0 {
		page.Next = claims.Next // below it, one of the lists has not been read
	}
	page.Runs = slices.DeleteFunc(append(page.Runs, claims.Runs...), func(v engine.RunView) bool { return newest(v.ID, page.Next) > 0 })
	slices.SortFunc(page.Runs, func(a, b engine.RunView) int { return newest(a.ID, b.ID) })
	if n := q.Limit; n > 0 && len(page.Runs) > n {
		page.Runs, page.Next = page.Runs[:n], page.Runs[n-1].ID
	}
	page.Total.N += claims.Total.N
	page.Total.Exact = page.Total.Exact && claims.Total.Exact
	return page, nil
}

// reserved reports whether no token may have a name, because users without a token are written so.
func reserved(name string) bool { return name == localUser || strings.HasPrefix(name, localUser+" (") }

// userOf is on whose behalf a request is made, as it is stored and shown.
func userOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}

// provedOf is the name of the token that a request showed; "": none.
func provedOf(ctx context.Context) string {
	t, _ := auth.Holder(ctx)
	return t.Name
}
