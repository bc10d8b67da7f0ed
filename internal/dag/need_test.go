package dag

import "testing"

func TestNeed(t *testing.T) {
	n := Need{CPU: 1500, Memory: 4 << 30}
	p := NewPlace("", "etl", nil).With(n)
	if p.Need() != n || Anywhere.With(Need{}) != Anywhere || NewPlace("", "etl", nil).Need() != (Need{}) {
		t.Errorf("%q needs %+v, want %+v", string(p), p.Need(), n)
	}
	if !p.Fits("x", &Traits{Groups: []string{"etl"}}) || p.Fits("x", &Traits{}) || !Anywhere.With(n).Fits("x", &Traits{}) {
		t.Error("what a task takes decided on which worker it fits, or its group did not")
	}
	if got, want := p.String(), "group etl, cpu 1.5, memory 4Gi"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n.Within(Need{CPU: 1500, Memory: 1}) || !n.Within(n) || !(Need{}).Within(Need{CPU: -1, Memory: -1}) {
		t.Error("what is within what")
	}
	for bytes, want := range map[int64]string{0: "0", 1023: "1023", 1 << 30: "1Gi", 1536 << 20: "1.5Gi", 256 << 20: "256Mi"} {
		if got := Bytes(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
}
