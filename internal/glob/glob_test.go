package glob

import "testing"

func TestNames(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"a.txt", "a.txt", true}, {"./a.txt", "a.txt", true}, {"*.txt", "a.txt", true}, {"*.txt", "x/a.txt", false}, {"**/*.txt", "a.txt", true},
		{"**/*.txt", "x/y/a.txt", true}, {"out/**", "out/x/y", true}, {"out/**", "out", false}, {"**", ".hidden", false}, {".*", ".hidden", true},
		{"out/*", "out/.x", false}, {"[a-", "a", false},
	} {
		if got := Names(c.glob, c.name); got != c.want {
			t.Errorf("%s names %s: %v", c.glob, c.name, got)
		}
	}
}

// TestMeet also checks that Meet never returns false if a name matches both globs.
func TestMeet(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a/b", "a", false}, {"*.html", "report.html", true}, {"*.html", "report.txt", false},
		{"*.html", "r*", true}, {"*.html", "*.txt", false}, {"a*", "b*", false}, {"out/**", "out/x/y", true}, {"out/**", "in/x", false},
		{"out/**", "out/*.csv", true}, {"**/*.csv", "out/**", true}, {"**/*.csv", "**/*.txt", false}, {"**", "a/b/c", true}, {"a/**/z", "a/z", true},
		{"a/**/z", "a/b/c/z", true}, {"a/**/z", "a/b/c/y", false}, {"x[0-9]", "x1", true}, {"x[0-9]", "y*", false}, {"out/**", "out", false},
	} {
		for _, got := range []bool{Meet(c.a, c.b), Meet(c.b, c.a)} {
			if got != c.want {
				t.Errorf("%s and %s: %v", c.a, c.b, got)
			}
		}
	}
	globs := []string{"*", "**", "a", "a*", "*a", "a/*", "a/**", "**/a", "**/*a", "a/**/b", "?a", "[ab]", "[ab]*", "b/a", "*/*", "**/*/**"}
	names := []string{"a", "b", "ab", "ba", "aa", "a/b", "b/a", "a/a/b", "a/ab", "aa/a", "a/b/a"}
	for _, a := range globs {
		for _, b := range globs {
			for _, name := range names {
				if Names(a, name) && Names(b, name) && !Meet(a, b) {
					t.Errorf("%s and %s both name %s", a, b, name)
				}
			}
		}
	}
}
