package access

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"skein.dev/skein/internal/dag"
)

var update = flag.Bool("update", false, "write the golden files")

const now = dag.Micros(1_000_000)

// every yields each verb, and each number after the last verb.
func every(yield func(Verb) bool) {
	for v := range 256 {
		if !yield(Verb(v)) {
			return
		}
	}
}

func principal(t testing.TB, scope Scope, bindings ...Binding) *Principal {
	t.Helper()
	p, err := NewPrincipal(User, "ann", bindings, scope)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRoles compares the verbs of each role with the table that people review.
func TestRoles(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s", "verb")
	for _, r := range Builtin() {
		fmt.Fprintf(&b, " %s", r.Name)
	}
	for v := Verb(1); v < verbsEnd; v++ {
		fmt.Fprintf(&b, "\n%-18s", v)
		for _, r := range Builtin() {
			mark := "-"
			if r.Verbs.Has(v) {
				mark = "x"
			}
			fmt.Fprintf(&b, " %-*s", len(r.Name), mark)
		}
	}
	golden(t, "roles.txt", trimmed(b.String()))
}

func trimmed(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return strings.Join(lines, "\n") + "\n"
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it):\n%s", file, got)
	}
}

// TestDecide compares the decision about every role and every verb, in each kind of place, with the
// definition: a binding gives its rights in its namespace until it expires, as far as the scope allows.
func TestDecide(t *testing.T) {
	scopes := []Scope{{}, Whole(), {Verbs: VerbsOf(RunRead, NodeRead), Namespaces: []string{Everywhere}},
		{Verbs: assignable, Namespaces: []string{"shop"}}, {Verbs: assignable}, {Namespaces: []string{"shop"}},
		{Verbs: ^Verbs(0), Namespaces: []string{"shop", "web", ""}}}
	for _, role := range append(Builtin(), Role{"none", 0}, Role{"rogue", ^Verbs(0)}) {
		for _, at := range []string{"shop", "web", Everywhere, ""} {
			for _, expires := range []dag.Micros{0, now, now + 1} {
				for _, scope := range scopes {
					p := principal(t, scope, Binding{Role: role, Namespace: at, Expires: expires})
					for _, where := range []string{"shop", "web", "other", Everywhere, ""} {
						for v := range every {
							want := v != 0 && v < Public && role.Verbs.Has(v) && expires != now && scope.Verbs.Has(v) && where != "" && at != "" &&
								(at == where || at == Everywhere) &&
								(slices.Contains(scope.Namespaces, Everywhere) || where != Everywhere && slices.Contains(scope.Namespaces, where))
							if v == Public || v == Self {
								want = true
							}
							if got := Decide(p, v, where, now); got != want {
								t.Fatalf("%s at %q until %d, scope %v: %v in %q: %v", role.Name, at, expires, scope, v, where, got)
							}
							if seen := Visible(p, v, now); v < Public && where != "" && where != Everywhere && seen.Has(where) != want {
								t.Fatalf("%s at %q: a list by %v shows %q: %v", role.Name, at, v, where, !want)
							}
							if can := Can(p, now); v < Public && where != "" && (can[where]|can[Everywhere]).Has(v) != want {
								t.Fatalf("%s at %q: can says %v of %v in %q", role.Name, at, !want, v, where)
							}
						}
					}
				}
			}
		}
	}
}

// TestNothingDenies: no zero value allows anything that is not public.
func TestNothingDenies(t *testing.T) {
	for _, p := range []*Principal{nil, {}} {
		for v := range every {
			for _, ns := range []string{"", "shop", Everywhere} {
				if Decide(p, v, ns, now) != (v == Public) {
					t.Errorf("%v allows %v in %q", p, v, ns)
				}
			}
			if seen := Visible(p, v, now); seen.All() || len(seen.Names()) > 0 || seen.Has("shop") || seen.Has("") {
				t.Errorf("%v sees by %v", p, v)
			}
		}
		if len(Can(p, now)) > 0 {
			t.Errorf("%v can do something", p)
		}
	}
	if n := (Namespaces{}); n.All() || n.Has("") || n.Has("shop") {
		t.Error("the zero set of namespaces has one")
	}
}

// TestKinds checks that workers and nodes have only the verb of their kind, whatever roles they were given.
func TestKinds(t *testing.T) {
	all := []Binding{{Role: Role{"rogue", ^Verbs(0)}, Namespace: Everywhere}}
	for kind := range Kind(8) {
		p, err := NewPrincipal(kind, "x", all, Whole())
		if err != nil {
			t.Fatal(err)
		}
		for v := range every {
			own := v == WorkerCall && (kind == Worker || kind == Local) || v == NodeCall && (kind == Node || kind == Local) || v == WorkerJoin && kind == Invited
			want := v == Public || own
			if kind != Worker && kind != Node && kind != Invited {
				want = v == Public || v != 0 && v < Public || own || v == Self && (kind == User || kind == Service || kind == Local)
			}
			if got := Decide(p, v, "shop", now); got != want {
				t.Errorf("%v: %v: %v", kind, v, got)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	p := principal(t, Whole(), Binding{Role: builtin[0], Namespace: "shop"})
	if err := Check(p, Need{RunRead, RunRead, "shop"}, now); err != nil {
		t.Error(err)
	}
	custom := Role{"starter", VerbsOf(RunStart)}
	var r *Refusal
	if err := Check(p, Need{RunStart, RunRead, "shop"}, now, custom); !errors.As(err, &r) || r.Hidden || r.Verb != RunStart ||
		!slices.Equal(r.Roles, []string{"operator", "editor", "admin", "cluster", "starter"}) {
		t.Errorf("refused with %+v", r)
	}
	if err := Check(p, Need{RunStart, RunRead, "web"}, now); !errors.As(err, &r) || !r.Hidden || strings.Contains(err.Error(), "run.start") ||
		strings.Contains(err.Error(), "web") {
		t.Errorf("an object elsewhere: %v", err)
	}
	if err := Check(p, Need{QueueWrite, 0, Everywhere}, now); !errors.As(err, &r) || r.Hidden {
		t.Errorf("an object that is no secret: %v", err)
	}
	if err := Check(nil, Need{0, 0, Everywhere}, now); err == nil {
		t.Error("the zero verb is allowed")
	}
}

// TestMayGive checks that no principal can give a verb in a namespace where it does not have that verb,
// whatever it combines.
func TestMayGive(t *testing.T) {
	for _, holds := range Builtin() {
		for _, at := range []string{"shop", Everywhere} {
			p := principal(t, Whole(), Binding{Role: holds, Namespace: at})
			for _, gives := range Builtin() {
				for _, where := range []string{"shop", "web", Everywhere} {
					want := holds.Verbs.Covers(gives.Verbs) && (at == where || at == Everywhere)
					if err := MayGive(p, gives.Verbs, where, now); (err == nil) != want {
						t.Errorf("%s at %s gives %s at %s: %v", holds.Name, at, gives.Name, where, err)
					}
				}
			}
			for _, bad := range []Verbs{0, VerbsOf(Public), VerbsOf(Self), VerbsOf(NodeCall), VerbsOf(RunRead, WorkerCall), 1, 1 << 63} {
				if MayGive(p, bad, "shop", now) == nil {
					t.Errorf("%s gives %b", holds.Name, bad)
				}
			}
			if MayGive(p, VerbsOf(RunRead), "", now) == nil {
				t.Error("a role is given nowhere")
			}
		}
	}
}

func TestNewRole(t *testing.T) {
	if r, err := NewRole("Deployer", VerbsOf(WorkflowWrite)); err != nil || r.Name != "deployer" {
		t.Errorf("%+v, %v", r, err)
	}
	for name, verbs := range map[string]Verbs{"admin": 2, "ＡＤＭＩＮ": 2, "empty": 0, "self": VerbsOf(Self), "far": 1 << 63, "": 2} {
		if r, err := NewRole(name, verbs); err == nil {
			t.Errorf("%q: %+v", name, r)
		}
	}
}

func TestVerbNames(t *testing.T) {
	seen := map[string]bool{}
	for v := Verb(1); v < verbsEnd; v++ {
		if v.String() == "" || v.String() == "none" || seen[v.String()] {
			t.Errorf("verb %d is called %q", v, v)
		}
		seen[v.String()] = true
		got, err := ParseVerb(v.String())
		if (err == nil) != assignable.Has(v) || err == nil && got != v {
			t.Errorf("%v is read as %v, %v", v, got, err)
		}
	}
	if _, err := ParseVerbs([]string{"run.read", "run.reed"}); err == nil || !strings.Contains(err.Error(), "run.read?") {
		t.Errorf("a typing error: %v", err)
	}
	if set, err := ParseVerbs(assignable.Names()); err != nil || set != assignable {
		t.Errorf("%v, %v", set, err)
	}
	if Verb(0).String() != "none" || Verb(200).String() != "none" {
		t.Error("what is no verb has a name")
	}
}

func TestBindingsBounded(t *testing.T) {
	if _, err := NewPrincipal(User, "ann", make([]Binding, BindingsMax+1), Whole()); err == nil {
		t.Error("any number of bindings is taken")
	}
}

func TestName(t *testing.T) {
	for text, want := range map[string]string{"Ann": "ann", "ＡＮＮ": "ann", "ann@Example.org": "ann@example.org", "STRASSE": "strasse",
		"Straße": "strasse", "E\u0301va": "éva", "7of9": "7of9"} {
		if got, err := Name(text); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ann", "ann ", "a b", "-ann", ".ann", "a/b", "a\x00", "a\u200b", "a\u202eb", "a\ufe0f", "\xff",
		"a:b", "*", strings.Repeat("a", nameMax+1), strings.Repeat("ﷺ", 30), "\u0301a", "a\u034fb", "a\u115f"} {
		if got, err := Name(text); err == nil {
			t.Errorf("%q is taken as %q", text, got)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, text := range []string{"Ann", "Straße", "ﷺ", "E\u0301", "ǰ", "İ", "ΐ", "\u0345", "ᾳ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := Name(text)
		if err != nil {
			return
		}
		again, err := Name(name)
		if err != nil || again != name || name == "" || len(name) > nameMax || !utf8.ValidString(name) {
			t.Errorf("%q is %q, then %q, %v", text, name, again, err)
		}
		if upper, err := Name(strings.ToUpper(name)); err == nil && fold(strings.ToUpper(name)) != upper {
			t.Errorf("%q in capitals is %q", name, upper)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	bindings := make([]Binding, BindingsMax)
	for i := range bindings {
		bindings[i] = Binding{Role: builtin[i%len(builtin)], Namespace: fmt.Sprint("team-", i/2), Expires: now + 1}
	}
	p := principal(b, Whole(), bindings...)
	b.Run("allowed", func(b *testing.B) {
		for b.Loop() {
			if !Decide(p, RunRead, "team-77", now) {
				b.Fatal("denied")
			}
		}
	})
	b.Run("denied", func(b *testing.B) {
		for b.Loop() {
			if Decide(p, ShardMove, "elsewhere", now) {
				b.Fatal("allowed")
			}
		}
	})
}
