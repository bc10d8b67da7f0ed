package doctor

import (
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/store/postgres"
)

// TestDoctorLooksAtPostgres checks what each check reports about a database server. A check that finds a
// fault must name a remedy.
func TestDoctorLooksAtPostgres(t *testing.T) {
	for what, tt := range map[string]struct {
		check func(*postgres.Facts) Check
		facts postgres.Facts
		want  string
		says  string
	}{
		"a primary":         {serverCheck, postgres.Facts{Version: "15.3", Autovacuum: true}, Good, "PostgreSQL 15.3, autovacuum is on"},
		"without vacuum":    {serverCheck, postgres.Facts{Version: "15.3"}, Warning, "autovacuum is off"},
		"no timeline":       {serverCheck, postgres.Facts{Version: "15.3", Autovacuum: true, TimelineUnknown: true}, Good, "timeline unknown: failovers are noticed by comparison only"},
		"a standby":         {serverCheck, postgres.Facts{Version: "15.3", Autovacuum: true, Recovering: true}, Bad, "a standby: it takes no writes"},
		"no standby":        {durabilityCheck, postgres.Facts{SynchronousCommit: "off", Fsync: true}, Good, "synchronous_commit off (Skein's sessions use on); no standby"},
		"synchronous":       {durabilityCheck, postgres.Facts{Fsync: true, Standbys: 3, Synchronous: 1}, Good, "3 standbys, 1 of them synchronous"},
		"none synchronous":  {durabilityCheck, postgres.Facts{Fsync: true, Standbys: 2}, Warning, "2 standbys, none of them synchronous"},
		"without fsync":     {durabilityCheck, postgres.Facts{Standbys: 1, Synchronous: 1}, Bad, "fsync is off"},
		"both":              {durabilityCheck, postgres.Facts{Standbys: 2}, Bad, "none of them synchronous: a failover loses the last commits; fsync is off"},
		"direct":            {poolerCheck, postgres.Facts{}, Good, "none"},
		"a pooler":          {poolerCheck, postgres.Facts{Pooler: true}, Good, "session mode"},
		"room for a node":   {connectionsCheck, postgres.Facts{ConnectionsMax: 57, Connections: 37}, Good, "37 of 57 in use, 20 left"},
		"no room":           {connectionsCheck, postgres.Facts{ConnectionsMax: 57, Connections: 38}, Warning, "19 left; a node takes up to 20"},
		"no transaction":    {transactionsCheck, postgres.Facts{}, Good, "no transaction of another client is open"},
		"a transaction":     {transactionsCheck, postgres.Facts{OldestTransaction: 10*time.Minute - 1}, Good, "the oldest open one is 10m0s old"},
		"an old one":        {transactionsCheck, postgres.Facts{OldestTransaction: 10 * time.Minute}, Warning, "vacuum cannot clean up"},
		"clocks":            {databaseClockCheck, postgres.Facts{Ahead: -3 * time.Second, RoundTrip: time.Second}, Good, "3s apart"},
		"a clock ahead":     {databaseClockCheck, postgres.Facts{Ahead: 2100 * time.Millisecond}, Warning, "2.1s apart"},
		"a clock behind":    {databaseClockCheck, postgres.Facts{Ahead: -2100 * time.Millisecond}, Warning, "2.1s apart"},
		"an index":          {indexCheck, postgres.Facts{RequestIndex: postgres.IndexValid}, Good, "request_created is valid"},
		"a missing index":   {indexCheck, postgres.Facts{RequestIndex: postgres.IndexMissing}, Warning, "request_created is missing; meanwhile"},
		"an index half way": {indexCheck, postgres.Facts{RequestIndex: postgres.IndexInvalid}, Warning, "request_created is not valid"},
	} {
		got := tt.check(&tt.facts)
		if got.State != tt.want || !strings.Contains(got.Found, tt.says) {
			t.Errorf("%s: %s, %q; want %s, %q", what, got.State, got.Found, tt.want, tt.says)
		}
		if (got.Remedy == "") != (tt.want == Good) {
			t.Errorf("%s is %s, with the remedy %q", what, got.State, got.Remedy)
		}
	}
}
