package app

import (
	"testing"

	"skein.dev/skein/internal/joining"
	"skein.dev/skein/internal/store"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestReplaceRoot checks that if a root is ended at once, the certificates and invitations of all workers
// become invalid. New invitations are accepted, and the audit log records what has happened.
func TestReplaceRoot(t *testing.T) {
	b := newJoinBed(t, nil)
	open, m := b.invite(api.TokenRequest{Name: "w2"}), b.joins(api.TokenRequest{Name: "w1"})
	if _, err := b.client(m).Register(t.Context(), registration("w1", 1)); err != nil {
		t.Fatal(err)
	}
	a, err := skein.ReplaceAuthority(t.Context(), b.k)
	if err != nil || len(a.Roots) != 1 || a.Roots[0].Fingerprint == open.Authority {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := b.client(m).Register(t.Context(), registration("w1", 1)); err == nil {
		t.Error("a certificate of the old root counts")
	}
	if _, err := JoinWorker(t.Context(), b.config("w2"), joining.Invitation{Secret: open.Secret, Fingerprint: a.Roots[0].Fingerprint}); err == nil {
		t.Error("an invitation from before counts")
	}
	again := b.joins(api.TokenRequest{Name: "w3"})
	if _, err := b.client(again).Register(t.Context(), registration("w3", 1)); err != nil {
		t.Error("a worker that has joined again:", err)
	}
	if n := rotations(t, b.n); n != 2 { // one row about the root, and one about the rows that ended with it
		t.Errorf("%d audit rows", n)
	}
}

func rotations(t *testing.T, n *Node) (rows int) {
	t.Helper()
	all, err := n.store.AuditList(t.Context(), store.AuditQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if all[i].Action == "rotate-authority" {
			rows++
		}
	}
	return rows
}

// TestRevokedTogether: the certificate of a worker takes all open invitations for its name with it, in one
// change.
func TestRevokedTogether(t *testing.T) {
	b := newJoinBed(t, nil)
	b.joins(api.TokenRequest{Name: "w1"})
	more, other := b.invite(api.TokenRequest{Name: "w1"}), b.invite(api.TokenRequest{Name: "w2"})
	b.revokes("w1")
	all, err := b.n.store.TokenList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := map[int64]store.Token{}
	for _, row := range all {
		at[row.ID] = row
	}
	if at[more.ID].Revoked == 0 || at[other.ID].Revoked != 0 {
		t.Errorf("%+v, %+v", at[more.ID], at[other.ID])
	}
	for _, row := range all {
		if row.Kind == store.TokenCertificate && row.Revoked != at[more.ID].Revoked {
			t.Errorf("the certificate was revoked at %d, the invitation at %d", row.Revoked, at[more.ID].Revoked)
		}
	}
}
