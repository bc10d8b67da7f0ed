// Package storetest holds every engine of the store to one meaning. An engine passes it
// unchanged:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Engine{Open: openTemp, Reopen: reopen})
//	}
//
// The suite also decides these points, about which the contract is silent:
//
//   - A text holds UTF-8 without NUL, anything else is refused. Texts compare by bytes.
//   - A value of more than 64 MiB is refused.
//   - A nil blob of a run or an attempt comes back nil. An empty one may come back nil.
//   - Only the state of a row changes: an update of a run leaves its header, of an
//     attempt its generation and assignment, of a workflow its shard, name and creation.
//   - A run without FinishedAt is unfinished.
//   - Runs are in the order of their ids or of their acceptance, as the engine likes;
//     pages show every run that is there from the first page to the last exactly once.
//   - Commit changes nothing of the batch: its fences still carry the old Seq, its events
//     no Seq.
//   - Lists of something unknown are empty; only methods that return one row return ErrNotFound.
//   - A limit of 0 or less gives up to 1,000 rows.
//   - Load with IDs looks at neither Shard nor state.
//   - Texts of what started a run (Header.Fire) are bytes like its parameters.
//   - A shard whose owner is no member counts as free. So a cluster can take over a store that
//     one node has used alone, and the shards that a node claims in the instant in which it is
//     deposed. Claim gives nothing to a handler that is no member.
//   - A member's Started is that of its handler, if the handler is registered. Its Beat and
//     times are the store's.
//   - The wishes about a member stay stored when it leaves.
//   - Whether a stale fence or refused content is reported first is open; both write nothing.
//
// No caller does the following, and no engine needs to detect it: attempts and events of runs that
// do not exist; a second end of a run within one generation; lines of one trigger that
// overlap, or the same name twice in what it hears of; triggers of a deleted workflow;
// triggers and backfills of a shard that the batch has no fence for.
package storetest

import (
	"testing"

	"skein.dev/skein/internal/store"
)

// Engine holds the functions of an engine that the suite needs.
type Engine struct {
	// Open makes an empty store. The suite closes it. The engine cleans up its other resources with t.Cleanup.
	Open func(t *testing.T) store.Store
	// Reopen opens again the data that s kept. s is closed already. It is nil if the engine keeps none.
	Reopen func(t *testing.T, s store.Store) store.Store
	// RunsOnly leaves out the groups that write no run: for a second way of writing runs.
	RunsOnly bool
}

// apart are the groups that write no run.
var apart = map[string]bool{"handlers": true, "tokens": true, "classes": true, "rights": true, "sessions": true, "secrets": true, "workers": true}

// check is one subtest on an open store with its shards taken.
type check struct {
	name string
	run  func(b *bed)
}

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	for _, group := range []struct {
		name   string
		checks []check
	}{
		{"fences", fences()},
		{"guests", guests()},
		{"guards", guards()},
		{"refusals", refusals()},
		{"texts", texts()},
		{"hands", hands()},
		{"ends", ends()},
		{"staged", staged()},
		{"rows", rows()},
		{"load", loads()},
		{"runs", queries()},
		{"keys", keys()},
		{"workflows", workflows()},
		{"versions", versions()},
		{"requests", requests()},
		{"messages", messages()},
		{"handlers", handlers()},
		{"schedules", schedules()},
		{"schedule guards", scheduleGuards()},
		{"due", due()},
		{"ledger", ledger()},
		{"backfills", backfills()},
		{"claims", claims()},
		{"unknown", unknowns()},
		{"concurrent", concurrent()},
		{"life", life()},
		{"workers", workers()},
		{"cluster", clusters()},
		{"cluster at once", clustersAtOnce()},
		{"logs", logs()},
		{"retention", retention()},
		{"tokens", tokens()},
		{"classes", classes()},
		{"rights", rights()},
		{"sessions", sessions()},
		{"secrets", secrets()},
		{"audit", audits()},
		{"alerts", alerts()},
		{"connections", connections()},
		{"eras", eras()},
		{"reload", reloads()},
	} {
		if e.RunsOnly && apart[group.name] {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.checks {
				t.Run(c.name, func(t *testing.T) { c.run(newBed(t, e)) })
			}
		})
	}
}
