package dag

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInstantsPackAndUnpack(t *testing.T) {
	const hour = 3_600_000_000
	year := make([]Micros, 0, 8760)
	for i := range Micros(8760) {
		year = append(year, 1_767_225_600_000_000+i*hour)
	}
	packed := PackInstants(year)
	if len(packed) > 24 {
		t.Errorf("a year of hours takes %d bytes", len(packed))
	}
	down := slices.Clone(year)
	slices.Reverse(down)
	for _, list := range [][]Micros{nil, {0}, {5}, {-5, -4}, {7, 7, 7}, year, down} {
		packed := PackInstants(list)
		got, err := UnpackInstants(packed, 0, 0)
		if err != nil || !slices.Equal(got, list) {
			t.Errorf("%d instants came back as %d: %v", len(list), len(got), err)
		}
		if n, err := CountInstants(packed); n != len(list) || err != nil {
			t.Errorf("counted %d of %d: %v", n, len(list), err)
		}
	}
	page, err := UnpackInstants(packed, 8758, 100)
	if err != nil || !slices.Equal(page, year[8758:]) {
		t.Errorf("the last page: %v %v", page, err)
	}
	if page, err := UnpackInstants(packed, 9000, 1); err != nil || len(page) != 0 {
		t.Errorf("beyond the end: %v %v", page, err)
	}
}

func TestInstantsOfAnyList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(-1<<60, 1<<60), 0, 50).Draw(t, "list")
		instants := make([]Micros, len(list))
		for i, v := range list {
			instants[i] = Micros(v)
		}
		packed := PackInstants(instants)
		skip, limit := rapid.IntRange(0, 60).Draw(t, "skip"), rapid.IntRange(1, 60).Draw(t, "limit")
		got, err := UnpackInstants(packed, skip, limit)
		skip = min(skip, len(instants))
		want := instants[skip:min(len(instants), skip+limit)]
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v: %v", got, want, err)
		}
		if cut := rapid.IntRange(0, len(packed)-1).Draw(t, "cut"); len(instants) > 0 {
			if _, err := UnpackInstants(packed[:cut], 0, 0); err == nil {
				t.Fatalf("a list cut at %d of %d bytes passes", cut, len(packed))
			}
		}
	})
}

func FuzzUnpackInstants(f *testing.F) {
	f.Add(PackInstants([]Micros{1, 2, 3, 9}), 1, 2)
	f.Fuzz(func(t *testing.T, b []byte, skip, limit int) {
		list, err := UnpackInstants(b, skip, limit)
		if err == nil && len(list) > InstantsMax {
			t.Fatal("more than a list may hold")
		}
	})
}
