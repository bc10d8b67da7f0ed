package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var hunkHead = regexp.MustCompile(`^@@ -(\d+),(\d+) \+(\d+),(\d+) @@$`)

const noNewline = `\ No newline at end of file`

// applied returns the text to which a patch was applied, as the program patch does it. The places of hunks
// are taken from their headers, and are not searched for.
func applied(t rapid.TB, text string, patch []string) string {
	t.Helper()
	if len(patch) == 0 {
		return text
	}
	if !strings.HasPrefix(patch[0], "--- a b.yaml\t") || !strings.HasPrefix(patch[1], "+++ a b.yaml\t") {
		t.Fatalf("no heads of files: %q", patch[:2])
	}
	old, out, at := strings.SplitAfter(text, "\n"), []string{}, 0
	if old[len(old)-1] == "" {
		old = old[:len(old)-1]
	}
	for patch = patch[2:]; len(patch) > 0; {
		m := hunkHead.FindStringSubmatch(patch[0])
		if m == nil {
			t.Fatalf("no head of a hunk: %q", patch[0])
		}
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1]) // the error is ignored, because the pattern matches only digits
		}
		if n[1] > 0 {
			n[0]--
		}
		if n[3] > 0 {
			n[2]--
		}
		if n[0] < at || n[0] > len(old) {
			t.Fatalf("%s after line %d of %d", patch[0], at, len(old))
		}
		out, at = append(out, old[at:n[0]]...), n[0]
		if len(out) != n[2] {
			t.Fatalf("%s: it is line %d of the new text", patch[0], len(out)+1)
		}
		patch = patch[1:]
		for n[1] > 0 || n[3] > 0 {
			line := patch[0][1:] + "\n"
			kind := patch[0][0]
			if patch = patch[1:]; len(patch) > 0 && patch[0] == noNewline {
				line, patch = strings.TrimSuffix(line, "\n"), patch[1:]
			}
			if kind != '+' {
				if at == len(old) || old[at] != line {
					t.Fatalf("line %d is not %q", at+1, line)
				}
				at, n[1] = at+1, n[1]-1
			}
			if kind != '-' {
				out, n[3] = append(out, line), n[3]-1
			}
		}
	}
	return strings.Join(append(out, old[at:]...), "")
}

// TestDiff: for any two texts, the printed patch turns the first text into the second.
func TestDiff(t *testing.T) {
	t.Parallel()
	sides := func(a, b string) (labelled, labelled) {
		return labelled{"a b.yaml", "version 1", a}, labelled{"a b.yaml", "the file", b}
	}
	if got := diff(sides("x\n", "x\n")); got != nil {
		t.Errorf("there is no difference: %q", got)
	}
	want := []string{"--- a b.yaml\tversion 1", "+++ a b.yaml\tthe file", "@@ -1,2 +1,2 @@", " x", "-y", "+z", noNewline}
	if got := diff(sides("x\ny\n", "x\nz")); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		side := rapid.Custom(func(t *rapid.T) string {
			lines := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 12), func(i int) string { return fmt.Sprint(i/4, "\r"[:i%2], "\n") }), 0, 40).Draw(t, "lines")
			text := strings.Join(lines, "")
			if rapid.Bool().Draw(t, "cut") {
				text = strings.TrimSuffix(text, "\n")
			}
			return text
		})
		a, b := side.Draw(t, "a"), side.Draw(t, "b")
		if got := applied(t, a, diff(sides(a, b))); got != b {
			t.Fatalf("%q becomes %q, want %q", a, got, b)
		}
	})
}
