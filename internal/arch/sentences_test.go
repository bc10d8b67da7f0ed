package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sentenceChecksMax bounds the checks of tests that compare the words of a sentence. The number may only fall.
const sentenceChecksMax = 160

// ofSentence matches expressions whose value is a sentence for people: an error, a field of a problem, a
// reason or a message.
var ofSentence = regexp.MustCompile(`\.Error\(\)|\.(?:Detail|Title|What|Message|Unblocks)\b|Sprint\(err\b|Sprintf?\([^)]*Reasons`)

// TestSentences counts where tests look for words in sentences. Sentences change, codes stay: compare the
// code of a problem, a reason, a fire or a log line, the cause of a run, or the error itself with errors.Is
// or errors.As. A check for a name in a sentence is allowed, because a name is data. The test recognises it
// as a text without a blank.
func TestSentences(t *testing.T) {
	all, of := 0, map[string]int{}
	goFiles(t, func(dir, file string) {
		if !strings.HasSuffix(file, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && comparesWords(fset, call) {
				all++
				of[dir]++
			}
			return true
		})
	})
	t.Logf("by folder: %v", of)
	ratchet(t, "tests that look for words in sentences", all, sentenceChecksMax)
}

func comparesWords(fset *token.FileSet, call *ast.CallExpr) bool {
	fn, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) != 2 || fn.Sel.Name != "Contains" && fn.Sel.Name != "HasPrefix" && fn.Sel.Name != "HasSuffix" {
		return false
	}
	if of, ok := fn.X.(*ast.Ident); !ok || of.Name != "strings" {
		return false
	}
	var in bytes.Buffer
	if err := printer.Fprint(&in, fset, call.Args[0]); err != nil || !ofSentence.Match(in.Bytes()) {
		return false
	}
	if lit, ok := call.Args[1].(*ast.BasicLit); ok {
		text, err := strconv.Unquote(lit.Value)
		return err != nil || strings.Contains(strings.TrimSpace(text), " ")
	}
	return true
}
