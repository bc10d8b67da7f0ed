package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
)

// TestOpenIncidentsGoByAnIndex: the usual list of alerts reads only open incidents, and not a history of a
// million.
func TestOpenIncidentsGoByAnIndex(t *testing.T) {
	_, path := openTemp(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s, _, err := conn.PrepareTransient("EXPLAIN QUERY PLAN " + statements("alerts")["incidentsOpen"])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Finalize()
	plan := ""
	for {
		more, err := s.Step()
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		plan += s.ColumnText(3) + "\n"
	}
	if !strings.Contains(plan, "USING INDEX incident_open") {
		t.Errorf("the plan is:\n%s", plan)
	}
}
