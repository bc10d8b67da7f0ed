package server_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	api "skein.dev/skein/sdk/api/v1"
)

func TestTokens(t *testing.T) {
	b := newBed(t, true)
	made := want[api.NewToken](t, b.post("/api/v1/tokens", `{"kind":"worker","name":"rack 7"}`), 200)
	if made.State != "valid" || made.Kind != "worker" || !strings.HasPrefix(made.Secret, "skein_worker_") {
		t.Errorf("%+v", made)
	}
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"rack 7"}`), 409, api.ProblemConflict)
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"root","name":"x"}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":" x"}`), 422, api.ProblemInvalid)
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"x","expires_at":"2001-01-01T00:00:00Z"}`), 422, api.ProblemInvalid)
	list := want[api.List[api.Token]](t, b.get("/api/v1/tokens"), 200)
	if len(list.Items) != 1 || !reflect.DeepEqual(list.Items[0], made.Token) {
		t.Errorf("%+v", list.Items)
	}
	gone := want[api.Token](t, b.post("/api/v1/tokens/1:revoke", ``), 200)
	if gone.State != "revoked" || gone.RevokedAt == nil {
		t.Errorf("%+v", gone)
	}
	wantProblem(t, b.post("/api/v1/tokens/7:revoke", ``), 404, api.ProblemNotFound)
}

// TestTokensEndUnlessTheyAreToLast: a token of people and programs expires in 90 days by default, and never
// if the maker requests that. A token of a worker or a node does not expire by default.
func TestTokensEndUnlessTheyAreToLast(t *testing.T) {
	b := newBed(t, true)
	for body, want90 := range map[string]bool{
		`{"kind":"api","name":"a"}`:                         true,
		`{"kind":"api","name":"b","never_expires":false}`:   true,
		`{"kind":"api","name":"c","never_expires":true}`:    false,
		`{"kind":"worker","name":"d"}`:                      false,
		`{"kind":"node","name":"e"}`:                        false,
		`{"kind":"worker","name":"f","never_expires":true}`: false,
	} {
		made := want[api.NewToken](t, b.post("/api/v1/tokens", body), 200)
		switch {
		case want90 != (made.ExpiresAt != nil):
			t.Errorf("%s: expires at %v", body, made.ExpiresAt)
		case want90 && made.ExpiresAt.Sub(made.CreatedAt.Time).Round(time.Hour) != 90*24*time.Hour:
			t.Errorf("%s: made at %v, expires at %v", body, made.CreatedAt, made.ExpiresAt)
		}
	}
	wantProblem(t, b.post("/api/v1/tokens", `{"kind":"api","name":"g","never_expires":true,"expires_at":"2099-01-01T00:00:00Z"}`), 422, api.ProblemInvalid)
}
