// Package storetest holds every engine of the store to one meaning. An engine passes it
// unchanged:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Engine{Open: openTemp, Reopen: reopen})
//	}
//
// The comments of package store state the contract; the groups of this suite show it by example.
package storetest

import (
	"testing"

	"skein.dev/skein/internal/store"
)

// Engine holds the functions of an engine that the suite calls.
type Engine struct {
	// Open makes an empty store. The suite closes the store. The engine cleans up everything else with
	// t.Cleanup.
	Open func(t *testing.T) store.Store
	// Reopen opens the data of s again after s was closed. It is nil if the engine keeps no data.
	Reopen func(t *testing.T, s store.Store) store.Store
	// RunsOnly leaves out the groups that write no run. Use it to test a second way of writing runs.
	RunsOnly bool
}

// apart is the set of the groups of tests that write no run.
var apart = map[string]bool{"handlers": true, "tokens": true, "classes": true, "rights": true, "sessions": true, "secrets": true, "workers": true}

// check is a subtest that gets an open store whose shards are taken.
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
		{"namespaces", namespaces()},
		{"tallies", tallies()},
		{"traces", []check{{"the position of the export of traces is the owner's", traceMarks}}},
		{"connections", connections()},
		{"git sources", gitSources()},
		{"events", sentEvents()},
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
