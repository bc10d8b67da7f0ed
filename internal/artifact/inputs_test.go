package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func infoOf(name, text string) Info {
	sum := sha256.Sum256([]byte(text))
	return Info{Name: name, Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:])}
}

// TestChoose checks that a named file must exist, that a pattern may match nothing, and that files of two
// sources must not have the same path.
func TestChoose(t *testing.T) {
	at := func(dir string) func(string) string { return func(name string) string { return path.Join(dir, name) } }
	as := func(string) string { return "x" }
	a, b := Ref{Task: "a", Attempt: 1}, Ref{Task: "b", Attempt: 3}
	kept := map[Ref][]Info{a: {infoOf("out/1", "1"), infoOf("out/2", "2"), infoOf("r", "r")}, b: {infoOf("r", "other")}}
	for _, c := range []struct {
		of   []Source
		want string
	}{
		{[]Source{{Ref: a, Name: "r", At: at("")}, {Ref: a, Name: "out/*", At: at("in")}}, "in/out/1 in/out/2 r"},
		{[]Source{{Ref: a, Name: "r", At: as}, {Ref: a, Name: "none*", At: at("")}}, "x"},
		{[]Source{{Ref: a, Name: "out/*", At: at("")}, {Ref: a, Name: "**", At: at("")}}, "out/1 out/2 r"},
		{[]Source{{Ref: a, Name: "none", At: at("")}}, "task a has kept no artifact none (attempt 1)"},
		{[]Source{{Ref: a, Name: "r", At: at("")}, {Ref: b, Name: "r", At: at("")}}, "r of task a and r of task b would both be r"},
		{[]Source{{Ref: a, Name: "r", At: as}, {Ref: a, Name: "out/1", At: at("x")}}, "x and x/out/1 need the same name"},
		{[]Source{{Ref: a, Name: "r", At: at(""), None: "it was skipped"}}, "there is no artifact r of task a: it was skipped"},
		{[]Source{{Ref: a, Name: "r*", At: at(""), None: "it was skipped"}}, ""},
		{[]Source{{Ref: Ref{Task: "c"}, Name: "r*", At: at("")}}, "no listed node has the file"},
	} {
		got, err := Choose(c.of, func(ref Ref) ([]Info, error) {
			if kept[ref] == nil {
				return nil, ErrAway
			}
			return kept[ref], nil
		})
		var names []string
		for _, in := range got {
			names = append(names, in.At)
		}
		if is := strings.Join(names, " "); err != nil && !strings.Contains(err.Error(), c.want) || err == nil && is != c.want {
			t.Errorf("%q, %v, want %q", is, err, c.want)
		}
	}
	many := make([]Info, inputFilesMax+1)
	for i := range many {
		many[i] = infoOf(fmt.Sprint(i), "")
	}
	for _, list := range [][]Info{many, {{Name: "a", Size: 3 << 30}, {Name: "b", Size: 3 << 30}}} {
		if _, err := Choose([]Source{{Ref: a, Name: "*", At: at("")}}, func(Ref) ([]Info, error) { return list, nil }); !errors.As(err, new(*NoInputError)) {
			t.Errorf("%d files: %v", len(list), err)
		}
	}
}

// TestInsist: if a file is missing, Insist waits for at most awayMax. If a node does not answer, it waits for
// as long as the caller does.
func TestInsist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Insist(t.Context(), func() error { return ErrAway }); !errors.Is(err, ErrAway) || time.Since(began) < awayMax || time.Since(began) > awayMax+againMax {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := Insist(t.Context(), func() error {
			switch gone := time.Since(began); {
			case gone < time.Hour:
				return ErrLater
			case gone < time.Hour+awayMax/2:
				return ErrAway
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("unwanted"))
		defer cancel()
		if err := Insist(ctx, func() error { return ErrLater }); err == nil || err.Error() != "unwanted" {
			t.Error(err)
		}
		if err := Insist(ctx, func() error { return ErrCorrupt }); err != ErrCorrupt {
			t.Error(err)
		}
	})
}

// TestFetch checks that files are received in pieces and compared with their announced digests. Either all of
// them are stored or none.
func TestFetch(t *testing.T) {
	texts := []string{"0123456789", "", "abc"}
	list := []Info{infoOf("d/x", texts[0]), infoOf("empty", texts[1]), infoOf("z", texts[2])}
	away, asked := true, ""
	read := func(_ context.Context, i int, offset int64) ([]byte, error) {
		if away = !away; !away {
			return nil, fmt.Errorf("the home is gone: %w", ErrLater)
		}
		asked += fmt.Sprintf("%d@%d ", i, offset)
		rest := texts[i][offset:]
		return []byte(rest[:min(4, len(rest))]), nil
	}
	k, f := keeper(t, LimitsDefault)
	if err := k.Fetch(t.Context(), ref, list, read); err != nil || asked != "0@0 0@4 0@8 2@0 " {
		t.Errorf("%v, asked %s", err, asked)
	}
	got, err := f.List(t.Context(), ref)
	if err != nil || names(got) != "d/x empty z" {
		t.Errorf("%v %v", got, err)
	}
	if err := f.Forget(ref); err != nil {
		t.Fatal(err)
	}
	texts[2] = "abd"
	if err := k.Fetch(t.Context(), ref, list, read); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if got, err := f.List(t.Context(), ref); err == nil {
		t.Errorf("half is there: %v", got)
	}
	if err := k.Fetch(t.Context(), ref, list[:1], func(context.Context, int, int64) ([]byte, error) { return nil, nil }); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a file that ends too early: %v", err)
	}
}
