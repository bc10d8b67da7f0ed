package remote

import (
	"reflect"
	"testing"

	workerv1 "skein.dev/skein/api/worker/v1"
	"skein.dev/skein/internal/worker"
)

// TestAccessTravels holds that a worker hears which files an isolated task may reach.
func TestAccessTravels(t *testing.T) {
	for _, access := range []*worker.Access{nil, {Read: []string{"/opt/a", "/opt/b"}, Write: []string{"/var/backups"}}} {
		sent := Wire(&worker.Job{Access: access}, "", "", false)
		sent.Attempt = &workerv1.Attempt{}
		got, err := job(sent, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Access, access) {
			t.Errorf("got %+v, want %+v", got.Access, access)
		}
	}
}
