package alert_test

import (
	"testing"

	"skein.dev/skein/internal/alert"
)

// TestNearBound checks that an open incident stays open while the value is near the limit, and that a value
// near the limit opens no incident.
func TestNearBound(t *testing.T) {
	rules := &alert.ClusterRules{Rules: []alert.ClusterRule{{On: []alert.Event{alert.DiskLow}, To: []string{"x"}}, {On: []alert.Event{alert.ClockSkew}, To: []string{"x"}},
		{On: []alert.Event{alert.NodeLost}, To: []string{"x"}}}}
	if err := rules.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		event        alert.Event
		value        int64
		opens, stays bool
	}{
		{alert.DiskLow, 999, true, false}, {alert.DiskLow, 1000, false, true}, {alert.DiskLow, 1099, false, true}, {alert.DiskLow, 1100, false, false},
		{alert.ClockSkew, 1_000_000, true, false}, {alert.ClockSkew, 900_000, false, true}, {alert.ClockSkew, 899_999, false, false},
		{alert.NodeLost, 0, true, false},
	} {
		all, stays := rules.Standing(&alert.Findings{All: []alert.Finding{{Event: c.event, Subject: "a", Value: c.value}}})
		if len(all) > 0 != c.opens || len(stays) > 0 != c.stays {
			t.Errorf("%s at %d opens %v and stays %v, want %v and %v", c.event, c.value, len(all) > 0, len(stays) > 0, c.opens, c.stays)
		}
	}
}
