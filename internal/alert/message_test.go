package alert_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"skein.dev/skein/internal/alert"
	"skein.dev/skein/internal/store"
)

// TestTell: a message is an incident that has ended at once, with one notice for each channel.
func TestTell(t *testing.T) {
	m := alert.Told{ID: uuid.UUID{7}, Of: alert.Subject{Shard: 3, Workflow: 5, Namespace: "shop", Name: "orders"}, Task: "tell", Run: "x",
		To: []string{"ops", "mail"}, Severity: "info", Text: "3 rows\nof 4"}
	c := alert.Tell(&m, 9)
	n := c.Incident
	if n.ID != m.ID || n.State != store.IncidentResolved || n.Ended != 9 || n.Revision != 1 || n.Rule != "task tell" || n.Detail.OpenedAt != 9 || len(c.Notices) != 2 {
		t.Fatalf("%+v, %d notices", n, len(c.Notices))
	}
	var body alert.Notice
	if err := json.Unmarshal(c.Notices[0].Data, &body); err != nil || body.Text != "shop/orders: 3 rows" || body.Message != m.Text || body.Kind != alert.KindMessage {
		t.Errorf("%+v, %v", body, err)
	}
}
