package postgres

import "testing"

func TestSingular(t *testing.T) {
	for _, c := range []struct{ many, one string }{
		{"SELECT now()", ""},
		{"INSERT INTO a (b, c) SELECT x.b, coalesce(x.c, $3) FROM unnest($1::uuid[], $2::int[]) x (b, c);",
			"INSERT INTO a (b, c) SELECT x.b, x.c FROM (VALUES ($1::uuid, $2::int)) x (b, c);"},
		{"UPDATE a SET c = coalesce(x.c, $3, a.c), d = coalesce(x.d, $5) FROM unnest($1::uuid[], $2::int[],\n $4::text[]) x (b, c, d) WHERE a.e = $6 AND cardinality($1) > $7",
			"UPDATE a SET c = coalesce(x.c, a.c), d = x.d FROM (VALUES ($1::uuid, $2::int,\n $3::text)) x (b, c, d) WHERE a.e = $4 AND 1 > $5"},
	} {
		if one := singular(c.many); one != c.one {
			t.Errorf("%s\n is %s\nwant %s", c.many, one, c.one)
		}
	}
	sql := statements("write")
	for _, name := range []string{"fence", "insertRun", "updateRun", "enlist", "strike", "insertAttempt", "firstAttempt", "updateAttempt", "insertEvent"} {
		if singular(sql[name]) == "" {
			t.Errorf("%s has no form for one row", name)
		}
	}
}
