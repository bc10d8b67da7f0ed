package home_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/artifact"
	"skein.dev/skein/internal/home"
	workerv1 "skein.dev/skein/sdk/api/worker/v1"
)

// file is an artifact of an attempt.
type file struct{ name, text string }

func (f file) wire() *workerv1.Artifact {
	sum := sha256.Sum256([]byte(f.text))
	return &workerv1.Artifact{Name: f.name, Size: int64(len(f.text)), Sha256: hex.EncodeToString(sum[:])}
}

// put sends a piece. It returns the next wanted piece, or the reason of the refusal.
func (h *hand) put(x *workerv1.Attempt, index int, as *workerv1.Artifact, offset int, data string) (int, int, string) {
	out, err := h.c.PutArtifact(h.t.Context(), &workerv1.PutArtifactRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Attempt: x,
		Index: int32(index), Artifact: as, Offset: int64(offset), Data: []byte(data)})
	if err != nil {
		return 0, 0, reason(err)
	}
	return int(out.Index), int(out.Offset), ""
}

func (h *hand) keep(x *workerv1.Attempt, files ...file) string {
	in := &workerv1.KeepArtifactsRequest{Handler: h.handler, Lease: h.lease, Uuid: h.uuid, Attempt: x}
	for _, f := range files {
		in.Artifacts = append(in.Artifacts, f.wire())
	}
	if _, err := h.c.KeepArtifacts(h.t.Context(), in); err != nil {
		return reason(err)
	}
	return ""
}

func (s *scene) ref() artifact.Ref {
	return artifact.Ref{Run: artifact.Run{Namespace: "test", Workflow: "w", ID: s.run.String()}, Task: "t0", Attempt: 1}
}

// nothingLeft waits until no file of the run is on the disk.
func (s *scene) nothingLeft() {
	s.Helper()
	s.until("nothing half is left", func() bool {
		entries, err := os.ReadDir(filepath.Join(s.files.Path, "artifacts", "test", "w", s.run.String()))
		return os.IsNotExist(err) || err == nil && len(entries) == 0
	})
}

// TestArtifacts: files arrive in pieces, doubled and out of order. They are visible only when all of them are
// stored. A repeated call changes nothing.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	one, two := file{"out/a", "0123456789"}, file{"b", ""}
	for _, p := range []struct {
		index  int
		of     file
		offset int
		data   string
		next   [2]int
	}{
		{1, two, 0, "", [2]int{0, 0}}, // out of order
		{0, one, 5, "56789", [2]int{0, 0}},
		{0, one, 0, "01234", [2]int{0, 5}},
		{0, one, 0, "01234", [2]int{0, 5}}, // sent twice
		{0, one, 5, "56789", [2]int{1, 0}},
		{0, one, 5, "56789", [2]int{1, 0}},
		{1, two, 0, "", [2]int{2, 0}},
	} {
		if i, o, why := s.a.put(s.x, p.index, p.of.wire(), p.offset, p.data); why != "" || p.next != [2]int{i, o} {
			t.Fatalf("%+v: wanted next %d %d %s", p, i, o, why)
		}
	}
	if list, err := s.files.List(t.Context(), s.ref()); err == nil {
		t.Errorf("seen before they are kept: %v", list)
	}
	for range 2 {
		if why := s.a.keep(s.x, one, two); why != "" {
			t.Fatal(why)
		}
	}
	list, err := s.files.List(t.Context(), s.ref())
	if err != nil || len(list) != 2 || list[0].Name != "b" || list[1].Name != "out/a" {
		t.Fatalf("%v %v", list, err)
	}
	r, info, err := s.files.Open(t.Context(), s.ref(), "out/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if text, err := io.ReadAll(io.NewSectionReader(r, 0, info.Size)); err != nil || string(text) != one.text {
		t.Errorf("%q %v", text, err)
	}
	s.a.end(s.x)
	if _, _, why := s.a.put(s.x, 0, one.wire(), 0, "01234"); why != "STALE" {
		t.Errorf("after its end: %q", why)
	}
}

// TestArtifactsRefused: files of other workers, above the bounds, or different from their announcement are
// not stored, and the next try can succeed.
func TestArtifactsRefused(t *testing.T) {
	t.Parallel()
	small := file{"a", "0123"}
	begin := func(s *scene, f file, data string) string {
		_, _, why := s.a.put(s.x, 0, f.wire(), 0, data)
		return why
	}
	for _, tt := range []struct {
		name, want string
		why        home.Reason
		call       func(s *scene) string
	}{
		{"another worker's", "STALE", home.Stale, func(s *scene) string { _, _, why := s.b.put(s.x, 0, small.wire(), 0, "0123"); return why }},
		{"kept by another worker", "STALE", home.Stale, func(s *scene) string { return s.b.keep(s.x, small) }},
		{"in another's name", "FORGED", home.Forged, func(s *scene) string {
			forger := &hand{t: s.town, c: s.b.c, uuid: s.b.uuid, handler: s.a.handler, lease: s.a.lease}
			return forger.keep(s.x, small)
		}},
		{"too large", "TOO_MUCH", home.TooMuch, func(s *scene) string { return begin(s, file{"a", "0123456789x"}, "0") }},
		{"too many", "TOO_MUCH", home.TooMuch, func(s *scene) string {
			for i, name := range []string{"a", "b"} {
				s.a.put(s.x, i, file{name, "0123"}.wire(), 0, "0123")
			}
			_, _, why := s.a.put(s.x, 2, small.wire(), 0, "0")
			return why
		}},
		{"more than was said", "CORRUPT", home.Corrupt, func(s *scene) string { return begin(s, small, "01234") }},
		{"something else", "CORRUPT", home.Corrupt, func(s *scene) string { return begin(s, small, "3210") }},
		{"outside", "CORRUPT", home.Corrupt, func(s *scene) string { return begin(s, file{"../a", "0123"}, "0123") }},
		{"another name in between", "CORRUPT", home.Corrupt, func(s *scene) string {
			s.a.put(s.x, 0, small.wire(), 0, "01")
			_, _, why := s.a.put(s.x, 0, file{"b", "0123"}.wire(), 2, "23")
			return why
		}},
		{"a file that did not come whole", "INCOMPLETE", home.Incomplete, func(s *scene) string {
			s.a.put(s.x, 0, small.wire(), 0, "01")
			return s.a.keep(s.x, small)
		}},
		{"files that did not come", "INCOMPLETE", home.Incomplete, func(s *scene) string { return s.a.keep(s.x, small) }},
		{"a list without end", "MALFORMED", home.Malformed, func(s *scene) string { return s.a.keep(s.x, make([]file, 10_001)...) }},
		{"a piece that is too large", "MALFORMED", home.Malformed, func(s *scene) string { return begin(s, small, strings.Repeat("x", 1<<20+1)) }},
		{"the worker dies", "", -1, func(s *scene) string {
			s.a.put(s.x, 0, small.wire(), 0, "01")
			s.deposed(s.a)
			s.a.register2(s.n)
			s.a.get(1)
			s.nothingLeft()
			s.x = s.a.running[0]
			return ""
		}},
		{"the attempt ends", "", -1, func(s *scene) string {
			s.a.put(s.x, 0, small.wire(), 0, "01")
			s.a.report(failed(s.x))
			return ""
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if got := tt.call(s); got != tt.want {
				t.Fatalf("answered %q, want %q", got, tt.want)
			}
			if tt.why >= 0 && s.n.h.Stats.Rejected(tt.why) == 0 {
				t.Errorf("not counted as %s", tt.why)
			}
			if _, err := s.files.List(t.Context(), s.ref()); err == nil {
				t.Error("something is kept")
			}
			if tt.name == "the attempt ends" {
				s.nothingLeft()
				return
			}
			right := file{"right", "0123456789"}
			for try := 0; ; try++ { // the missing rest is requested first
				i, o, why := s.a.put(s.x, 0, right.wire(), 0, right.text)
				if why == "" && i == 1 {
					break
				}
				if try > 2 || why != "" && !slices.Contains([]string{"CORRUPT", ""}, why) {
					t.Fatalf("afterwards: %d %d %q", i, o, why)
				}
				if why == "" { // every wanted piece is refused, and the upload starts again
					s.a.put(s.x, i, right.wire(), o, right.text)
				}
			}
			if why := s.a.keep(s.x, right); why != "" {
				t.Errorf("afterwards: %s", why)
			}
			s.a.end(s.x)
		})
	}
}
