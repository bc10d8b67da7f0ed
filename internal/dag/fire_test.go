package dag

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPackFireRoundTrip(t *testing.T) {
	if b := (*Fire)(nil).Pack(); b != nil {
		t.Errorf("nothing is packed as %x", b)
	}
	rapid.Check(t, func(t *rapid.T) {
		f := Fire{Trigger: rapid.String().Draw(t, "trigger"), Key: rapid.String().Draw(t, "key"),
			Instant: Micros(rapid.Int64().Draw(t, "instant")), StartBy: Micros(rapid.Int64().Draw(t, "start by")),
			Backfill: rapid.Int64Range(0, math.MaxInt64).Draw(t, "backfill"), FailLost: rapid.Bool().Draw(t, "fail lost"),
			Trace: rapid.SampledFrom([]string{"", aTrace}).Draw(t, "trace")}
		f.Key += rapid.SampledFrom([]string{"", traceMark + aTrace, traceMark + noTrace}).Draw(t, "end of the key")
		if n := rapid.IntRange(0, LineMax).Draw(t, "line"); n > 0 {
			f.Parent = &Parent{Task: TaskID(rapid.Int32Range(0, math.MaxInt32).Draw(t, "task"))}
			for i := range n {
				f.Parent.Line = append(f.Parent.Line, Ancestor{RunID{byte(i)}, WorkflowID(i)})
			}
		}
		packed := f.Pack()
		back, err := UnpackFire(packed)
		if err != nil || !reflect.DeepEqual(*back, f) {
			t.Fatalf("%+v came back as %+v: %v", f, back, err)
		}
		for i := 1; i < len(packed); i++ {
			if short, err := UnpackFire(packed[:i]); err == nil {
				t.Fatalf("%d of %d bytes give %+v", i, len(packed), short)
			}
		}
		if long, err := UnpackFire(append(packed, 0)); err == nil {
			t.Fatalf("one byte more gives %+v", long)
		}
	})
}

const aTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseTrace(t *testing.T) {
	const start = "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
	for header, want := range map[string]string{
		"00" + start + "01":     aTrace,
		"00" + start + "00":     "00" + start + "00",
		"00" + start + "03":     aTrace,
		"00" + start + "fe":     "00" + start + "00",
		"cc" + start + "01":     aTrace,
		"cc" + start + "01-new": aTrace,
		"cc" + start + "01new":  "",
		"ff" + start + "01":     "",
		"00" + start + "01-new": "",
		"00" + start + "1":      "",
		"00" + start + "0A":     "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01": "",
		" 00" + start + "01": "", "": "", "x": "",
	} {
		if got := ParseTrace(header); got != want {
			t.Errorf("%q gives %q, want %q", header, got, want)
		}
	}
}

// TestTraceIsBehindTheKey: a decoder of an earlier release reads the trace context as a part of the key.
func TestTraceIsBehindTheKey(t *testing.T) {
	with, key := (&Fire{Key: "k", Trace: aTrace}).Pack(), "k"+traceMark+aTrace
	u := unpacker{b: with[2:]}
	if u.text(); u.text() != key || u.bad {
		t.Errorf("%x does not have the key %q", with, key)
	}
	if !(&Fire{Trace: aTrace}).Alone() || !(*Fire)(nil).Alone() || (&Fire{Of: RunID{1}}).Alone() {
		t.Error("Alone")
	}
}

func FuzzUnpackFire(f *testing.F) {
	f.Add((&Fire{}).Pack())
	f.Add((&Fire{Trigger: "nightly", Instant: 1_700_000_000_000_000, StartBy: 1_700_000_060_000_000, FailLost: true}).Pack())
	f.Add((&Fire{Parent: &Parent{Task: 3, Line: []Ancestor{{RunID{1}, 7}}}}).Pack())
	f.Add((&Fire{Tags: "order=17\nteam=data", Trigger: "t"}).Pack())
	f.Add((&Fire{Trigger: "t", Key: "hook/00", Backfill: 7, Instant: -1}).Pack())
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		fire, err := UnpackFire(b)
		if err != nil || fire == nil {
			return
		}
		again, err := UnpackFire(fire.Pack())
		if err != nil || !reflect.DeepEqual(again, fire) {
			t.Fatalf("%+v came back as %+v: %v", fire, again, err)
		}
	})
}

// TestTwoQueues moves runs between queues: a run is in at most one queue, and a removal from another queue
// has no effect.
func TestTwoQueues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := [2]*Queue{{Ageing: time.Minute}, {Ageing: time.Minute}}
		runs := make([]*Run, 6)
		in := make([]int, len(runs)) // its queue + 1
		for i := range runs {
			runs[i] = NewRun(Header{ID: RunID{byte(i)}, Priority: Priority(rapid.IntRange(0, 4).Draw(t, "priority")), Created: Micros(i % 3)})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i, q := rapid.IntRange(0, len(runs)-1).Draw(t, "run"), rapid.IntRange(0, 1).Draw(t, "queue")
			switch {
			case rapid.Bool().Draw(t, "remove"):
				if queues[q].Remove(runs[i]); in[i] == q+1 {
					in[i] = 0
				}
			case in[i] == 0:
				queues[q].Put(runs[i])
				in[i] = q + 1
			default:
				queues[q].Update(runs[i]) // the run has no ready task, and must not make other runs wait
				if in[i] == q+1 {
					in[i] = 0
				}
			}
			for q := range queues {
				n := 0
				var best *Run
				for i, r := range runs {
					if in[i] != q+1 {
						continue
					}
					if n++; best == nil || r.Priority < best.Priority || r.Priority == best.Priority && earlier(r, best) {
						best = r
					}
				}
				if queues[q].Len() != n || queues[q].Head(0) != best {
					t.Fatalf("queue %d has %d, want %d", q, queues[q].Len(), n)
				}
			}
		}
	})
}

// TestFollowersLeaveTheTrace: a chain of runs that follow each other shares a trace for a bounded number of
// runs, and the trace context that a run shows does not tell how many there were.
func TestFollowersLeaveTheTrace(t *testing.T) {
	for _, given := range []string{aTrace[:53] + "00", aTrace[:53] + "01"} {
		h := &Header{Fire: &Fire{Trace: given}}
		for hop := range traceHopsMax {
			next := FollowTrace(h)
			fire, err := UnpackFire((&Fire{Key: "k", Trace: next}).Pack())
			if err != nil || next == "" {
				t.Fatalf("hop %d: %q, %v", hop, next, err)
			}
			if h = (&Header{Fire: fire}); h.Trace() != given {
				t.Fatalf("hop %d: the trace of %s is shown as %s, want %s", hop, next, h.Trace(), given)
			}
		}
		if next := FollowTrace(h); next != "" {
			t.Errorf("hop %d: %s, want none", traceHopsMax, next)
		}
	}
	if next := FollowTrace(&Header{Fire: &Fire{Key: "k"}}) + FollowTrace(&Header{}); next != "" {
		t.Errorf("without a trace: %s", next)
	}
}
