package worker

import "testing"

// TestGather checks when ends wait for further ends: only while enough attempts run that the freed slots are
// not missed, and only while no other news is due.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		what    string
		out     news
		running int
		waits   bool
	}{
		{"nothing", news{}, 9, false},
		{"the last of all", news{Results: make([]Result, 1)}, 0, false},
		{"one, and another one runs", news{Results: make([]Result, 1)}, 1, true},
		{"two, and one runs", news{Results: make([]Result, 2)}, 1, false},
		{"five, and five run", news{Results: make([]Result, 5)}, 5, true},
		{"six, and five run", news{Results: make([]Result, 6)}, 5, false},
		{"a start", news{Results: make([]Result, 1), Started: make([]Held, 1)}, 9, false},
		{"a line", news{Results: make([]Result, 1), Lines: make([]line, 1)}, 9, false},
		{"an answer", news{Results: make([]Result, 1), Pong: 1}, 9, false},
		{"a welcome", news{Results: make([]Result, 1), Welcome: &welcome{}}, 9, false},
	} {
		k := &keeper{out: c.out, running: map[ID]*Held{}}
		for i := range c.running {
			k.running[ID{Attempt: i}] = &Held{}
		}
		if k.gathers() != c.waits {
			t.Errorf("%s: waits %v", c.what, !c.waits)
		}
	}
}

// TestGatheringSleeps checks that only urgent news wakes the gathering goroutine.
func TestGatheringSleeps(t *testing.T) {
	k := &keeper{conn: &stream{}, wake: make(chan struct{}, 1), running: map[ID]*Held{{Attempt: 1}: {}}, gathering: true}
	k.out.Results = make([]Result, 1)
	if k.rouse(); len(k.wake) != 0 {
		t.Error("an end that may wait wakes it up")
	}
	k.out.Results = make([]Result, 2)
	if k.rouse(); len(k.wake) != 1 {
		t.Error("ends that leave slots empty wait")
	}
	<-k.wake
	k.out = news{Pong: 1}
	if k.rouse(); len(k.wake) != 1 {
		t.Error("an answer waits")
	}
}

// TestReportedTogether checks that ends that arrive together are reported together, each once, and that ends
// of unknown attempts are not reported.
func TestReportedTogether(t *testing.T) {
	var got [][]Result
	l := &Link{live: map[ID]*parcelState{}, cfg: Config{Report: func(rs ...Result) { got = append(got, rs) }}}
	end := func(attempt int) Result { return Result{Key: Key{RunID: "r", Task: "t", Attempt: attempt}} }
	for attempt := 1; attempt <= 3; attempt++ {
		l.live[end(attempt).Key.ID()] = &parcelState{}
	}
	l.hear(&news{Results: []Result{end(1), end(7), end(3), end(1)}})
	l.hear(&news{Results: []Result{end(3)}})
	if len(got) != 1 || len(got[0]) != 2 || got[0][0].Key != end(1).Key || got[0][1].Key != end(3).Key {
		t.Errorf("%+v", got)
	}
	if len(l.live) != 1 {
		t.Errorf("%d are live", len(l.live))
	}
}
