package remote

import (
	"reflect"
	"testing"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/worker"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// TestAccessTravels checks that a worker learns which files an isolated task may reach, and the trace of the caller.
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
