package packed

import (
	"testing"

	"skein.dev/skein/internal/dag"
)

// BenchmarkWithHandsOf finds the attempts of one task among the packed attempts of a run of 100,000 tasks.
// Half of the tasks have ended, ten in each transaction.
func BenchmarkWithHandsOf(b *testing.B) {
	const now = 1_795_386_229_822_806
	var all [][]byte
	for at := 0; at < 50_000; at += 10 {
		var rows []dag.AttemptRow
		for _, ended := range []bool{true, false} {
			for i := at; i < at+10; i++ {
				a := dag.AttemptRow{Task: dag.TaskID(i), Token: 1, Generation: 1, Handler: 123_456, Assigned: now + dag.Micros(i)}
				rows = append(rows, plain(&a, ended, now+1_500, now+4_000, true))
			}
		}
		all = append(all, packAll(rows))
	}
	for b.Loop() {
		if rows, err := WithHandsOf(nil, dag.RunID{}, 40_000, all); err != nil || len(rows) != 1 {
			b.Fatal(rows, err)
		}
	}
}
