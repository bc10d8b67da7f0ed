package server

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// localUser is the user of a program that shows no token: it is on the machine of the node.
const localUser = "local"

type userKey struct{}

// claimMax bounds a name that a program claims, in bytes.
const claimMax = 100

// user returns the caller in whose name a request is made: its principal, or local. The name of a token of
// the first service, to which all tokens of earlier versions belong, is used in place of the service's name.
// If a program without a token claims a name for its user, that name is appended and shown with the user. A
// claimed name is never used in a comparison.
func (s *Server) user(r *http.Request) (string, *failure) {
	if t, ok := auth.Holder(r.Context()); ok {
		if id := auth.Identity(r.Context()); id != "" && t.Principal != store.FirstService {
			return id, nil
		}
		return t.Name, nil
	}
	claim := r.Header.Get(api.HeaderClaimedBy)
	if claim == "" {
		return localUser, nil
	}
	odd := func(c rune) bool { return !unicode.IsPrint(c) || c == '(' || c == ')' }
	if !utf8.ValidString(claim) || len(claim) > claimMax || strings.ContainsFunc(claim, odd) {
		return "", fail(http.StatusUnprocessableEntity, api.ProblemInvalid, "%s: use at most %d bytes of printable text without parentheses",
			api.HeaderClaimedBy, claimMax)
	}
	return claimed(claim), nil
}

// claimed returns the stored form of a user of whom only a claim is known.
func claimed(name string) string { return localUser + " (" + name + ")" }

// enqueued is the prefix of the user of a run that skein_enqueue has started. After it come the role of the
// database and, in parentheses, the name that the caller of the function gave.
const enqueued = "enqueue:"

// claimOf returns the claimed name in a stored user. It returns "" if there is none.
func claimOf(user string) string {
	by, claim, ok := strings.Cut(user, " (")
	if !ok || by != localUser && !strings.HasPrefix(by, enqueued) {
		return ""
	}
	claim, _ = strings.CutSuffix(claim, ")")
	return claim
}

// unproven reports whether the user of a run is free text. This is so for runs before format 28, when
// skein_enqueue stored the name that its caller gave.
func unproven(r *dag.Header) bool {
	return r.Origin == dag.OriginEnqueue && !strings.HasPrefix(r.User, enqueued)
}

// claimOfRun returns the claimed name of the user of a run. It returns "" if there is none.
func claimOfRun(r *dag.Header) string {
	if unproven(r) {
		return r.User
	}
	return claimOf(r.User)
}

// runsOf returns one page of runs. A query for a user selects the runs of the token with that name, and the
// runs of programs without a token that claimed the name.
func (s *Server) runsOf(ctx context.Context, q store.RunQuery) (inspect.RunPage, error) {
	page, err := s.engine.Runs(ctx, q)
	if err != nil || q.User == "" || claimOf(q.User) != "" || strings.HasPrefix(q.User, enqueued) {
		return page, err
	}
	q.User = claimed(q.User)
	claims, err := s.engine.Runs(ctx, q)
	if err != nil {
		return claims, err
	}
	newest := func(a, b dag.RunID) int { return bytes.Compare(b[:], a[:]) }
	if newest(claims.Next, page.Next) < 0 {
		page.Next = claims.Next // one of the two lists was not read below this cursor
	}
	page.Runs = slices.DeleteFunc(append(page.Runs, claims.Runs...), func(v inspect.RunView) bool { return newest(v.ID, page.Next) > 0 })
	sort.Slice(page.Runs, func(i, j int) bool { return newest(page.Runs[i].ID, page.Runs[j].ID) < 0 })
	if n := q.Limit; n > 0 && len(page.Runs) > n {
		page.Runs, page.Next = page.Runs[:n], page.Runs[n-1].ID
	}
	page.Total.N += claims.Total.N
	page.Total.Exact = page.Total.Exact && claims.Total.Exact
	return page, nil
}

// reserved reports whether a token must not have a name, because the names of users without a token have the
// same form.
func reserved(name string) bool {
	return name == localUser || strings.HasPrefix(name, localUser+" (") || strings.HasPrefix(name, enqueued)
}

// userOf returns the caller in whose name a request is made, in the form that is stored and shown.
func userOf(ctx context.Context) string {
	name, _ := ctx.Value(userKey{}).(string)
	return name
}
