package remote

import (
	"encoding/json"
	"reflect"
	"testing"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// TestAccessTravels holds that a worker hears which files an isolated task may reach, and the trace of the caller.
func TestAccessTravels(t *testing.T) {
	for _, access := range []*worker.Access{nil, {Read: []string{"/opt/a", "/opt/b"}, Write: []string{"/var/backups"}}} {
		key := worker.Key{Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
		sent := Wire(&worker.Job{Key: key, Access: access}, "", "", egress.Rules{})
		sent.Attempt = &workerv1.Attempt{}
		got, err := job(sent, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Key.Traceparent != key.Traceparent {
			t.Errorf("got %+v, want %+v", got.Key, key)
		}
		if !reflect.DeepEqual(got.Access, access) {
			t.Errorf("got %+v, want %+v", got.Access, access)
		}
	}
}

// TestStatementTravels: a statement reaches a worker whole. To a worker that does not know it, it is a request
// without an address.
func TestStatementTravels(t *testing.T) {
	q := &worker.Query{To: connection.Postgres{Host: "db", Port: 5433, Database: "dw", User: "etl", TLS: connection.TLSEncrypt, CA: "pem"}, Password: "value",
		Text: "SELECT @a", Params: json.RawMessage(`{"a":1}`), Result: connection.ResultRows, Isolation: "serializable", Once: true}
	sent := Wire(&worker.Job{Key: worker.Key{Namespace: "n", Workflow: "w", RunID: "r", Task: "t", Attempt: 1}, HTTP: &worker.Request{SQL: q}}, "", "", egress.Rules{})
	if sent.Request.Url != "" {
		t.Errorf("an earlier worker would send a request to %s", sent.Request.Url)
	}
	sent.Attempt = &workerv1.Attempt{}
	got, err := job(sent, nil)
	if err != nil || !reflect.DeepEqual(got.HTTP.SQL, q) {
		t.Errorf("%+v, %v; want %+v", got.HTTP.SQL, err, q)
	}
	sent.Request.Sql = []byte("{")
	if _, err := job(sent, nil); err == nil {
		t.Error("half of a statement is taken")
	}
}
