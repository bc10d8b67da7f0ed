//go:build linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestNoticeOfDeadOwner kills the owner of a workflow while it sends a message of an alert. The next owner
// sends the message under the same id, and records it once.
func TestNoticeOfDeadOwner(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids, types []string
	begun, over := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var msg struct{ Type string }
		_ = json.Unmarshal(body, &msg)
		mu.Lock()
		ids, types = append(ids, r.Header.Get("webhook-id")), append(types, msg.Type)
		first := len(ids) == 1
		mu.Unlock()
		if first { // the sender of this message is killed before it has an answer
			close(begun)
			<-over
		}
	}))
	defer receiver.Close()
	defer close(over)
	f := newFlight(t, 3, "SKEIN_EGRESS=any")
	one := f.members[0].home
	one.until("each node owns shards", func() bool { return len(f.owners()) == 3 })
	dir := t.TempDir()
	channels, flow := filepath.Join(dir, "channels.yaml"), filepath.Join(dir, "flow.yaml")
	for file, text := range map[string]string{
		channels: "channels: {ops: {webhook: {url: \"" + receiver.URL + "/x\"}}}\n",
		flow:     "name: broken\nalerts: [{on: failed, to: ops}]\ntasks: {a: {run: \"false\"}}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one.run("alert", "apply", channels)
	one.run("workflow", "apply", flow)
	f.members[1].begin(t, "broken", "once")
	<-begun
	var dead, other *member
	name := f.ownerOf("broken")
	for _, m := range f.members {
		if m.name == name {
			dead = m
		} else {
			other = m
		}
	}
	dead.kill()
	var alert api.AlertDetail
	other.home.until("the message is sent", func() bool {
		page, err := skein.NewAlerts(other.client).List(t.Context(), skein.AlertFilter{}, "", 10)
		if err != nil || len(page.Items) != 1 {
			return false
		}
		alert, err = skein.NewAlerts(other.client).Get(t.Context(), page.Items[0].ID)
		return err == nil && len(alert.Notices) == 1 && alert.Notices[0].State == "sent"
	})
	if alert.Notices[0].Tries != 1 || alert.Count != 1 {
		t.Errorf("the alert is %+v", alert)
	}
	if now := f.ownerOf("broken"); now == name {
		t.Errorf("%s owns the workflow still", now)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 2 || ids[0] != ids[1] || ids[0] == "" || types[0] != "incident.opened" || types[1] != types[0] {
		t.Errorf("the receiver got %q of the types %q", ids, types)
	}
	dead.start()
	f.sound()
	for _, m := range f.members {
		m.stop()
	}
}
