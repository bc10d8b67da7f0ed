package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The limits of this file are a ratchet: lower them when you mend old text, and never raise them. docs/internal/style.md
// says how to write, and how each pattern is written in plain English.
const (
	dialectBlocksMax = 36 // comment blocks that hold a pattern of dialect
	longCommentsMax  = 3  // comment lines with more than commentWidth characters
	commentWidth     = 110
)

// dialect holds the patterns that a reader has to read twice: relative clauses in place of names, people in place of
// processes, and words that are no terms of this field.
var dialect = regexp.MustCompile(`\b(?:[Ss]omebody|[Nn]obody|[Ee]verybody|[Ww]hoever|anew|likewise|once more|of its own accord)\b` +
	`|\bbeside\b` +
	`|\b(?:lies?|stands?|lay|stood) (?:in|at|there|beside)\b` +
	`|(?:^|[.,;:(] )[Ww]ho (?:[a-z]+s|has|is|does|comes|will|would|can|may)\b` +
	`|\b(?:of|for|to|by|from|with|than|and|or) who(?:m)? (?:[a-z]+s|has|is|does)\b` +
	`|(?:^|[.;:(] )[Ww]hat (?:is|was|has|comes|goes|came|went|[a-z]+ed) ` +
	`|\b(?:is|are|was|were) (?:told|said) (?:by|of|so|to|that|what|where|who)\b` +
	`|\bas it is said\b|\bfrom then on\b|\bfrom there on\b|\bso many\b|\bhas it\b`)

// TestProse counts the marked blocks. If PROSE is set to a part of a path, as in
// "PROSE=internal/dag go test -v -run TestProse ./internal/arch", it also prints the marked blocks of these files.
func TestProse(t *testing.T) {
	root, list := repoRoot(t), os.Getenv("PROSE")
	blocks, marked, long := 0, map[string]int{}, map[string]int{}
	goFiles(t, func(dir, file string) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || bytes.Contains(src[:min(len(src), 500)], []byte("Code generated")) {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(file, root), "/")
		for _, g := range f.Comments {
			text := strings.Join(strings.Fields(g.Text()), " ")
			if strings.Count(text, " ") >= 2 {
				blocks++
				if at := dialect.FindString(text); at != "" {
					marked[rel]++
					if list != "" && strings.Contains(rel, list) {
						t.Logf("%s:%d: %q in: %s", rel, fset.Position(g.Pos()).Line, strings.TrimSpace(at), text)
					}
				}
			}
			long[rel] += longLines(g)
		}
	})
	t.Logf("%d comment blocks, %d with dialect, %d long comment lines", blocks, sum(marked), sum(long))
	ratchet(t, "comment blocks with dialect", sum(marked), dialectBlocksMax)
	ratchet(t, "long comment lines", sum(long), longCommentsMax)
}

// longLines counts the lines of a comment that are wider than commentWidth.
func longLines(g *ast.CommentGroup) (n int) {
	for _, c := range g.List {
		for line := range strings.SplitSeq(c.Text, "\n") {
			if len([]rune(line)) > commentWidth && !strings.Contains(line, "://") {
				n++
			}
		}
	}
	return n
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// ratchet fails if a count is above its limit, or so far below that the limit must be lowered.
func ratchet(t *testing.T, what string, n, limit int) {
	t.Helper()
	switch {
	case n > limit:
		t.Errorf("%d %s, the limit is %d: write the new ones as docs/internal/style.md says", n, what, limit)
	case n < limit-limit/10-10:
		t.Errorf("%d %s: lower the limit of %d", n, what, limit)
	}
}
