package store

import (
	"reflect"
	"testing"
)

func TestReason(t *testing.T) {
	t.Parallel()
	part := func(code string, args ...string) ReasonPart {
		p := ReasonPart{Code: code, Args: map[string]string{}}
		for i := 0; i < len(args); i += 2 {
			p.Args[args[i]] = args[i+1]
		}
		return p
	}
	for _, c := range []struct {
		is    Reason
		text  string
		parts []ReasonPart
	}{
		{Because("late", "3m"), "started 3m late: nothing ran to start it", []ReasonPart{part("late", "late", "3m")}},
		{Because("by_hand", "ada", ""), "by hand, ada", []ReasonPart{part("by_hand", "actor", "ada")}},
		{Because("by_hand", "ada", "a [test]"), "by hand, ada: a [test]", []ReasonPart{part("by_hand", "actor", "ada", "reason", "a [test]")}},
		{Because("paused_planned", "A", "B", "", "a=b"), "paused from A until B: a=b", []ReasonPart{part("paused_planned", "from", "A", "until", "B", "reason", "a=b")}},
		{Because("absent_came", "*.csv", "/in", ""), "a file *.csv in /in came", []ReasonPart{part("absent_came", "pattern", "*.csv", "path", "/in")}},
		{Because("absent_came", "", "", "a or b"), "a run of a or b came", []ReasonPart{part("absent_came", "workflows", "a or b")}},
		{Because("absent_for", "", "", "a", "1h").And("; ", Because("late", "2s")), "a run of a did not come for 1h; started 2s late: nothing ran to start it",
			[]ReasonPart{part("absent_for", "workflows", "a", "span", "1h"), part("late", "late", "2s")}},
		{Said("the object a").And("; ", Because("paused_events")), "the object a; events of that time start nothing", []ReasonPart{part("paused_events")}},
		{Because("by_hand", "ada", "x"+partMark+"late"+argMark+"late=1s"), "by hand, ada: x late late=1s", []ReasonPart{part("by_hand", "actor", "ada", "reason", "x late late=1s")}},
		{Said("x" + partMark + "late"), "x late", []ReasonPart{}},
		{"", "", []ReasonPart{}},
		{"x" + partMark + "cut" + argMark + "of", "x", []ReasonPart{part("cut", "of", "")}},
	} {
		if got := c.is.String(); got != c.text {
			t.Errorf("the text of %q is %q, want %q", string(c.is), got, c.text)
		}
		if got := c.is.Parts(); !reflect.DeepEqual(got, c.parts) {
			t.Errorf("the parts of %q are %v, want %v", string(c.is), got, c.parts)
		}
	}
}
