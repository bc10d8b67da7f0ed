package packed

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"skein.dev/skein/internal/dag"
)

var exampleLine = regexp.MustCompile(`(?m)^example ([a-z ]*[a-z]) {2,}(\S+(?: [0-9a-f]{2})*) {2,}\S`)

// TestPage: the examples of docs/internal/rows.md are what the program writes and reads.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/internal/rows.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := map[string][]byte{}
	for _, m := range exampleLine.FindAllSubmatch(page, -1) {
		b, err := hex.DecodeString(strings.ReplaceAll(string(m[2]), " ", ""))
		if err != nil {
			b = m[2]
		}
		examples[string(m[1])] = b
	}
	hand := func(task dag.TaskID, at dag.Micros) dag.AttemptRow {
		return dag.AttemptRow{Task: task, Token: 1, Handler: 7, Assigned: at, State: dag.AttemptAssigned}
	}
	end := hand(0, 50_000)
	end = plain(&end, true, 50_100, 52_100, true)
	const hour = dag.Micros(3_600_000_000)
	for name, want := range map[string][]byte{
		"hands":     packAll([]dag.AttemptRow{hand(0, 50_000)}),
		"two hands": packAll([]dag.AttemptRow{hand(0, 50_000), hand(1, 50_010)}),
		"end":       packAll([]dag.AttemptRow{end}),
		"records": dag.PackRecords([]dag.Record{{Kind: dag.RecAssigned, Token: 1, Handler: 7},
			{Kind: dag.RecEnded, Token: 1, Exited: true, State: dag.Succeeded}}),
		"claim": dag.PackClaims(&dag.Claim{Queue: "gpu", Stage: dag.ClaimAsked, Level: dag.Medium, Asked: 9}, nil),
		"hours": dag.PackInstants([]dag.Micros{0, hour, 2 * hour}),
		"line":  AppendLine(nil, func(yield func(int64) bool) { _ = yield(40) && yield(41) && yield(47) }),
	} {
		if !bytes.Equal(examples[name], want) {
			t.Errorf("example %s: the page has % x, the program writes % x", name, examples[name], want)
		}
		delete(examples, name)
	}
	counts, err := dag.CountStates(examples["states"])
	if want := map[dag.TaskState]int{dag.Succeeded: 3, dag.Failed: 1}; err != nil || !reflect.DeepEqual(counts, want) {
		t.Errorf("example states: %v, %v; want %v", counts, err, want)
	}
	delete(examples, "states")
	for name := range examples {
		t.Errorf("the page has an example %s that this test does not know", name)
	}
}
