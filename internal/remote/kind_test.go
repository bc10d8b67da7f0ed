package remote

import (
	"encoding/json"
	"slices"
	"testing"

	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/kind"
	"skein.dev/skein/internal/worker"
)

// TestFurnish: a kind of this program gets the settings of the machine, the rules of egress, and the secrets
// that its results must not hold.
func TestFurnish(t *testing.T) {
	const name = "skein:sql"
	book := extension.Open(nil, "dev", []extension.House{{Kind: name, Settings: json.RawMessage(`{"protected":["/data"]}`)}})
	job := &worker.Job{Kind: &worker.Kind{Name: name, Input: []byte(`{"kind":"skein:sql","with":{}}`)}, Secrets: []string{"password", "of a parameter"}}
	if err := Furnish(job, book, egress.Rules{Policies: []string{egress.Any}}); err != nil {
		t.Fatal(err)
	}
	var in kind.Input
	if err := json.Unmarshal(job.Kind.Input, &in); err != nil {
		t.Fatal(err)
	}
	if !job.Kind.House || !slices.Equal(in.Secrets, job.Secrets) || string(in.Settings) != `{"protected":["/data"]}` || len(in.Egress) == 0 {
		t.Errorf("%+v", in)
	}
}
