package home_test

import (
	"errors"
	"fmt"
	"testing"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// brought is the input of every attempt in these tests.
var brought = file{"in/a", "0123456789"}

func inputsOf(run dag.RunID, t dag.TaskID) ([]artifact.Input, error) {
	w := brought.wire()
	return []artifact.Input{{Info: artifact.Info{Name: "a", Size: w.Size, SHA256: w.Sha256}, At: "in/a"},
		{Info: artifact.Info{Name: "away"}, At: "away"}, {Info: artifact.Info{Name: "gone"}, At: "gone"}, {Info: artifact.Info{Name: "odd"}, At: "odd"}}, nil
}

func readInput(in *artifact.Input, offset int64) ([]byte, error) {
	switch in.Name {
	case "away":
		return nil, fmt.Errorf("%w: its node is gone", artifact.ErrAway)
	case "gone":
		return nil, artifact.NoInput("there is no such file")
	case "odd":
		return nil, errors.New("the disk makes noises")
	}
	return []byte(brought.text)[offset:min(offset+4, in.Size)], nil
}

func (h *hand) list(x *workerv1.Attempt) ([]*workerv1.Artifact, string) {
	out, err := h.c.ListInputs(h.t.Context(), &workerv1.ListInputsRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Attempt: x})
	if err != nil {
		return nil, reason(err)
	}
	return out.Inputs, ""
}

func (h *hand) read(x *workerv1.Attempt, index int32, offset int64) (string, string) {
	out, err := h.c.GetInput(h.t.Context(), &workerv1.GetInputRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Attempt: x, Index: index, Offset: offset})
	if err != nil {
		return "", reason(err)
	}
	return string(out.Data), ""
}

// TestInputs: a worker reads the inputs of an attempt in pieces, from any offset, as long as it has the
// attempt. No other worker can read them.
func TestInputs(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 2 {
		list, why := s.a.list(s.x)
		if why != "" || len(list) != 4 || list[0].Name != "in/a" || list[0].Size != 10 || list[0].Sha256 != brought.wire().Sha256 {
			t.Fatalf("%v %s", list, why)
		}
	}
	for offset, want := range map[int64]string{0: "0123", 4: "4567", 8: "89", 10: ""} {
		if got, why := s.a.read(s.x, 0, offset); got != want || why != "" {
			t.Errorf("from %d: %q %s", offset, got, why)
		}
	}
	forger := &hand{t: s.town, c: s.b.c, uuid: s.b.uuid, handler: s.a.handler, lease: s.a.lease}
	for _, c := range []struct {
		by            *hand
		index, offset int64
		want          string
		counted       home.Reason
	}{
		{s.b, 0, 0, "STALE", home.Stale}, {forger, 0, 0, "FORGED", home.Forged}, {s.a, 9, 0, "MALFORMED", home.Malformed}, {s.a, -1, 0, "MALFORMED", home.Malformed},
		{s.a, 0, -1, "MALFORMED", home.Malformed}, {s.a, 1, 0, "AWAY", home.Away}, {s.a, 2, 0, "NO_INPUT", home.NoInput}, {s.a, 3, 0, "unavailable", -1},
	} {
		got, why := c.by.read(s.x, int32(c.index), c.offset)
		if got != "" || why != c.want || c.counted >= 0 && s.n.h.Stats.Rejected(c.counted) == 0 {
			t.Errorf("%d from %d: %q %q, want %s", c.index, c.offset, got, why, c.want)
		}
	}
	if _, why := s.b.list(s.x); why != "STALE" {
		t.Errorf("another worker's list: %q", why)
	}
	if why := s.a.keep(s.x); why != "" { // the empty list is kept
		t.Error(why)
	}
	if list, err := s.files.List(t.Context(), s.ref()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	s.a.end(s.x)
	if _, why := s.a.read(s.x, 0, 0); why != "STALE" {
		t.Errorf("after its end: %q", why)
	}
}
