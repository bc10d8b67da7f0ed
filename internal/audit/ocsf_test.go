package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"skein.dev/skein/internal/store"
)

// TestOCSF checks the classes, activities and required attributes of events against those of OCSF 1.1.0.
func TestOCSF(t *testing.T) {
	for _, c := range []struct {
		row  store.Audit
		kind string // class, activity, status, and the user of an event about users
	}{
		{store.Audit{Action: "sign-in", Principal: "ann", Kind: "user"}, "3002 1 1 ann"},
		{store.Audit{Action: "POST /api/v1/session", Outcome: store.AuditRefused}, "3002 1 2 unknown"},
		{store.Audit{Action: "sign-out", Principal: "ann", Kind: "user"}, "3002 2 1 ann"},
		{store.Audit{Action: "create-user", Object: "/users", Detail: "user bob, role viewer in *"}, "3001 1 1 bob"},
		{store.Audit{Action: "change-password", Object: "/users/bob:password"}, "3001 3 1 bob"},
		{store.Audit{Action: "delete-user", Object: "/users/bob"}, "3001 6 1 bob"},
		{store.Audit{Action: "GET /api/v1/runs/{id}/tasks/{task}/logs", Outcome: store.AuditRead, Object: "/runs/1/tasks/a/logs"}, "6003 2 1"},
		{store.Audit{Action: "create-token", Object: "/tokens"}, "6003 1 1"},
		{store.Audit{Action: "apply-workflow", Object: "/workflows/shop/w", Namespace: "shop"}, "6003 3 1"},
		{store.Audit{Action: "revoke-token"}, "6003 4 1"},
		{store.Audit{Action: "other-calls", Outcome: store.AuditRefused}, "6003 99 2"},
	} {
		c.row.At, c.row.Last, c.row.Count, c.row.Address = 1_700_000_000_123_456, 1_700_000_000_123_456, 1, "10.0.0.7"
		var in, out bytes.Buffer
		lines := json.NewEncoder(&in)
		if err := lines.Encode(Head{Format: leafFormat}); err != nil {
			t.Fatal(err)
		}
		if err := lines.Encode(c.row); err != nil {
			t.Fatal(err)
		}
		if err := WriteOCSF(&in, &out); err != nil {
			t.Fatal(err)
		}
		var e struct {
			Class    int `json:"class_uid"`
			Category int `json:"category_uid"`
			Activity int `json:"activity_id"`
			Type     int `json:"type_uid"`
			Severity int `json:"severity_id"`
			Status   int `json:"status_id"`
			Time     int64
			Metadata struct {
				Version string
				Product struct{ Name string }
			}
			Actor  struct{ User *ocsfUser }
			Source struct{ IP string } `json:"src_endpoint"`
			API    *struct{ Operation string }
			User   *ocsfUser
		}
		if err := json.Unmarshal(out.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(e.Class, e.Activity, e.Status)
		if e.User != nil {
			got += " " + e.User.Name
		}
		if got = strings.Join(strings.Fields(got), " "); got != c.kind {
			t.Errorf("%+v is %s, want %s", c.row, got, c.kind)
		}
		if e.Category != e.Class/1000 || e.Type != e.Class*100+e.Activity || e.Severity == 0 || e.Time != 1_700_000_000_123 || e.Metadata.Version != ocsfVersion ||
			e.Metadata.Product.Name == "" || e.Actor.User == nil || e.Source.IP != "10.0.0.7" || (e.Class == 6003) != (e.API != nil && e.API.Operation == c.row.Action) {
			t.Errorf("an event without what its class requires: %s", out.Bytes())
		}
	}
	if err := WriteOCSF(strings.NewReader("{}\n"), &bytes.Buffer{}); err == nil {
		t.Error("a text that is no export is accepted")
	}
}
