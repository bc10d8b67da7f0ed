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
			Backfill: rapid.Int64Range(0, math.MaxInt64).Draw(t, "backfill"), FailLost: rapid.Bool().Draw(t, "fail lost")}
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

func FuzzUnpackFire(f *testing.F) {
	f.Add((&Fire{}).Pack())
	f.Add((&Fire{Trigger: "nightly", Instant: 1_700_000_000_000_000, StartBy: 1_700_000_060_000_000, FailLost: true}).Pack())
	f.Add((&Fire{Parent: &Parent{Task: 3, Line: []Ancestor{{RunID{1}, 7}}}}).Pack())
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

// TestTwoQueues moves runs between queues: a run is in one at most, and leaves only the one
// that it is in.
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
				queues[q].Update(runs[i]) // it has nothing ready: that is no reason to wait
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
