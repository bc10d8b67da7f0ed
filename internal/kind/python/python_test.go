package python

import (
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/kind"
)

func TestRequirements(t *testing.T) {
	h := "--hash=sha256:" + strings.Repeat("ab", 32)
	all, err := CheckRequirements("# locked\n\nDemo==1.0 \\\n    "+h+" \\\n    "+h+"\nother[x]>=2 ; python_version > '3' "+h+" # via demo\n", false)
	if want := []string{"Demo==1.0 " + h + " " + h, "other[x]>=2 ; python_version > '3' " + h}; err != nil || !slices.Equal(all, want) {
		t.Errorf("%q, %v", all, err)
	}
	if all, err := CheckRequirements("demo\nother @ https://example.org/a#b", true); err != nil || len(all) != 2 {
		t.Errorf("%q, %v", all, err)
	}
	for _, line := range []string{"https://example.org/a-1.0.whl", "git+https://example.org/a", "zope.zipper==1"} {
		if _, err := CheckRequirements(line, true); err != nil {
			t.Error(err)
		}
	}
	for _, line := range []string{"demo@file:///srv/a", "demo @ FILE:///srv/a", "file:///srv/a", "git+file:///srv/a", "demo @ git+file:///srv/a", "lib/demo", "demo-1.0.whl", "demo.tar.gz[x]"} {
		if _, err := CheckRequirements(line, true); err == nil {
			t.Errorf("%q passes: the digest does not depend on its content", line)
		}
	}
	if all, err := CheckRequirements("demo==1.0 "+h+" \\", false); err != nil || len(all) != 1 {
		t.Errorf("a last line that goes on: %q, %v", all, err)
	}
	for _, text := range []string{
		"demo==1.0",
		"demo==1.0 --hash=md5:" + strings.Repeat("ab", 16),
		"-r other.txt",
		"--index-url http://a",
		"./folder " + h,
		"demo @ file:///srv/a " + h,
		"demo " + h + " --config-settings=a=b",
		"a " + h + "\n\n-e git+https://x",
		strings.Repeat("x", requirementsMax+1) + h,
	} {
		if _, err := CheckRequirements(text, false); err == nil {
			t.Errorf("%.40q passes", text)
		}
	}
}

// TestDigest checks that the digest depends on everything that decides about the files of an environment, and
// on nothing else.
func TestDigest(t *testing.T) {
	base := With{File: "a.py", Index: "http://a"}
	all := []string{"demo --hash=sha256:00"}
	is := base.digest(all, "3.11")
	for name, c := range map[string]struct {
		w     With
		all   []string
		about string
		same  bool
	}{
		"another program":     {With{Module: "b", Args: []string{"x"}, Index: "http://a"}, all, "3.11", true},
		"another index":       {With{Index: "http://b"}, all, "3.11", true},
		"another interpreter": {base, all, "3.12", false},
		"another hash":        {base, []string{"demo --hash=sha256:01"}, "3.11", false},
		"no hashes":           {With{Index: "http://a", Unlocked: true}, all, "3.11", false},
	} {
		if got := c.w.digest(c.all, c.about); (got == is) != c.same {
			t.Errorf("%s: %s, %s", name, got, is)
		}
	}
	a, b := With{Unlocked: true, Index: "http://a"}, With{Unlocked: true, Index: "http://b"}
	if a.digest(all, "") == b.digest(all, "") {
		t.Error("without hashes, the index counts")
	}
}

// TestCodes checks exit codes with messages of pip 23.
func TestCodes(t *testing.T) {
	for said, want := range map[string]int{
		"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(…)'\nERROR: Could not find a version that satisfies the requirement demo\nERROR: No matching distribution found for demo": kind.Away,
		"ERROR: Could not find a version that satisfies the requirement demo==9 (from versions: 1.0)\nERROR: No matching distribution found for demo==9":                                                             kind.Permanent,
		"ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.":                                                                                                                                  kind.Permanent,
		"error: subprocess-exited-with-error": kind.Failed,
	} {
		if got := codeOf(said, false); got != want {
			t.Errorf("%q: %d, want %d", said, got, want)
		}
	}
	if got := codeOf("ProxyError", true); got != kind.Permanent {
		t.Error(got)
	}
}
