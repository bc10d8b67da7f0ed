package doctor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/config"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/store"
)

// TestDoctorLooksAtTheDataFolder checks that doctor reports a data folder that others can write, with a
// remedy.
func TestDoctorLooksAtTheDataFolder(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if c := checkFolder(&config.Config{Data: dir}); c.State != Bad || !strings.Contains(c.Remedy, "closes it") {
		t.Errorf("%+v", c)
	}
}

// someTokens is a store that implements only the methods about tokens.
type someTokens struct {
	store.Tokens
	all []store.Token
}

func (s someTokens) TokenList(context.Context) ([]store.Token, error) { return s.all, nil }

// TestTokensThatExpire checks that doctor names valid tokens before they expire.
func TestTokensThatExpire(t *testing.T) {
	in := func(d time.Duration) dag.Micros { return dag.Micros(time.Now().Add(d).UnixMicro()) }
	const day = 24 * time.Hour
	far := store.Token{Name: "far", Kind: "api", Expires: in(60 * day)}
	for name, c := range map[string]struct {
		all         []store.Token
		state, says string
	}{
		"good": {[]store.Token{far, {Name: "never", Kind: "node"}}, Good, "2 valid"},
		"soon": {[]store.Token{far, {Name: "rack", Kind: "worker", Expires: in(3 * day)}}, Warning, "rack (worker, "},
		"over": {[]store.Token{{Name: "old", Expires: in(-day)}, {Name: "gone", Expires: in(day), Revoked: 1}}, Good, "0 valid"},
		"many": {slices.Repeat([]store.Token{{Name: "rack", Kind: "worker", Expires: in(3 * day)}}, tokensTold+2), Warning, ") and 2 more"},
		"ten":  {slices.Repeat([]store.Token{{Name: "rack", Kind: "worker", Expires: in(3 * day)}}, tokensTold), Warning, "rack (worker, "},
	} {
		got := checkTokens(t.Context(), someTokens{all: c.all})
		if len(got) != 1 || got[0].State != c.state || !strings.Contains(got[0].Found, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if len(c.all) <= tokensTold && strings.Contains(got[0].Found, "more") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := checkTokens(t.Context(), someTokens{}); got != nil {
		t.Errorf("without tokens: %+v", got)
	}
}

// inEra is a store that implements only the methods about the era.
type inEra struct {
	store.Store
	era dag.Era
}

func (s inEra) Marks(context.Context) ([]store.Fence, error) {
	return []store.Fence{{Epoch: store.EpochOf(s.era, 0)}}, nil
}

// TestDoctorLooksAtTheEra checks that doctor warns long before a database has used up its eras.
func TestDoctorLooksAtTheEra(t *testing.T) {
	for era, want := range map[dag.Era]string{0: Good, store.ErasMany - 1: Good, store.ErasMany: Warning, dag.EraMax - 1: Warning, dag.EraMax: Bad} {
		c := checkPast(t.Context(), &config.Config{Data: t.TempDir()}, inEra{era: era})
		if c.State != want || (c.Remedy == "") != (want == Good) {
			t.Errorf("era %d: %+v", era, c)
		}
	}
}
