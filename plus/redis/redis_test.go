package redis

import (
	"encoding/json"
	"testing"
)

// TestEntryID checks that ids are ordered by their numbers, and that an id is read back as it was written.
func TestEntryID(t *testing.T) {
	all := []string{"0-0", "0-7", "9-18446744073709551615", "10-0", "10-2", "10-10", "1700000000000-0"}
	for i, text := range all {
		id, err := parseID(text)
		if err != nil || id.String() != text {
			t.Errorf("%s is read as %s, %v", text, id, err)
		}
		for j, other := range all {
			if is, err := parseID(other); err != nil || id.less(is) != (i < j) {
				t.Errorf("%s before %s: %t, %v", text, other, id.less(is), err)
			}
		}
	}
	for _, bad := range []string{"", "7", "-1-0", "1-x", "1-2-3", "18446744073709551616-0"} {
		if id, err := parseID(bad); err == nil {
			t.Errorf("%q is read as %s", bad, id)
		}
	}
	if at := before(10); at.String() != "9-18446744073709551615" || before(0) != (entryID{}) {
		t.Errorf("%s", at)
	}
}

// TestPosition checks that a cursor is read back as it was written, and that invalid ones are refused.
func TestPosition(t *testing.T) {
	s := source{at: cursor{Last: entryID{5, 1}, Read: 9}}
	raw, err := json.Marshal(s.Cursor())
	if err != nil || string(raw) != `{"last":"5-1","read":9}` {
		t.Errorf("%s, %v", raw, err)
	}
	var is source
	if err := is.Restore(raw); err != nil || is.at != s.at {
		t.Errorf("%+v, %v", is.at, err)
	}
	for _, bad := range []string{`7`, `{}`, `{"last":"x"}`, `{"last":"1-1","read":-2}`} {
		if err := is.Restore([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, is.at)
		}
	}
}
