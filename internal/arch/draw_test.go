package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The number of texts that a reader reads in one check, as docs/internal/style.md says, and the fewest words
// that a text must have.
const (
	drawnComments = 100
	drawnErrors   = 40
	drawnPages    = 10
	drawnWordsMin = 4
)

// makesError matches the functions whose first literal is the text of an error: fmt.Errorf, errors.New,
// errkind.FromStore, and the short forms that some packages have for them.
var makesError = regexp.MustCompile(`^(fmt\.Errorf|errors\.New|errkind\.FromStore|\w*\.?(bad|fail|refuse|usage|errorf|problem)\w*)$`)

// TestDraw checks that every kind of text can be found. If DRAW is set to a number or a word, as in
// "DRAW=2611 go test -v -run TestDraw ./internal/arch", it also draws with this seed, and prints the drawn
// texts.
func TestDraw(t *testing.T) {
	root := repoRoot(t)
	var comments, texts []string
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
		place := func(n ast.Node) string {
			return fmt.Sprintf("%s/%s:%d", dir, filepath.Base(file), fset.Position(n.Pos()).Line)
		}
		for _, g := range f.Comments {
			if len(strings.Fields(g.Text())) >= drawnWordsMin {
				comments = append(comments, place(g)+"\n"+g.Text())
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if text := errorText(n); text != "" {
				texts = append(texts, place(n)+"\n"+text)
			}
			return true
		})
	})
	pages := pagesUnder(t, filepath.Join(root, "docs"))
	t.Logf("%d comment blocks, %d error texts, %d pages", len(comments), len(texts), len(pages))
	if len(comments) < drawnComments || len(texts) < drawnErrors || len(pages) < drawnPages {
		t.Error("there are fewer texts than a reader is to read")
	}
	word := os.Getenv("DRAW")
	if word == "" {
		return
	}
	chance := rand.New(rand.NewPCG(seedOf(word), 0))
	for _, kind := range []struct {
		all []string
		n   int
	}{{comments, drawnComments}, {texts, drawnErrors}, {pages, drawnPages}} {
		slices.Sort(kind.all)
		for i, at := range chance.Perm(len(kind.all))[:min(kind.n, len(kind.all))] {
			fmt.Printf("[%d] %s\n", i+1, kind.all[at])
		}
	}
}

// seedOf returns the seed that DRAW names: a number is itself, and any other word is hashed.
func seedOf(word string) uint64 {
	if seed, err := strconv.ParseUint(word, 10, 64); err == nil {
		return seed
	}
	h := fnv.New64a()
	h.Write([]byte(word))
	return h.Sum64()
}

// errorText returns the text of the error that a call makes, or "" if the node is no such call or its text is
// short.
func errorText(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || !makesError.MatchString(nameOf(call.Fun)) {
		return ""
	}
	for _, arg := range call.Args {
		lit, ok := arg.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			continue
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && len(strings.Fields(text)) >= drawnWordsMin {
			return text
		}
	}
	return ""
}

// nameOf returns the name of a called function with its package or receiver, or "" if the call has another
// form.
func nameOf(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// pagesUnder returns the Markdown files of a folder and the folders below it.
func pagesUnder(t *testing.T, folder string) (pages []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".md") {
			pages = append(pages, strings.TrimPrefix(p, folder+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}
