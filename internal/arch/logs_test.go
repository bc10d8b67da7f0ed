package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// codeForm is the form of every stable code.
var codeForm = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// TestLogCodes checks that every log line of level INFO and above has a code, and that equal messages have
// the same code.
func TestLogCodes(t *testing.T) {
	lines, messages := 0, map[string]string{}
	goFiles(t, func(dir, file string) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(dir, "examples") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isLog(call) {
				return true
			}
			lines++
			message, code, has := logged(call)
			switch at := set.Position(call.Pos()); {
			case !has:
				t.Errorf("%s: the log line %q has no code: add \"code\" as its first attribute", at, message)
			case code != "" && !codeForm.MatchString(code):
				t.Errorf("%s: the code %q is not in lower case with underscores", at, code)
			case code != "" && message != "" && messages[message] != "" && messages[message] != code:
				t.Errorf("%s: the message %q has the codes %s and %s", at, message, messages[message], code)
			case message != "":
				messages[message] = code
			}
			return true
		})
	})
	if lines < 150 {
		t.Errorf("only %d log lines were found: the test does not see them any more", lines)
	}
}

// isLog reports whether a call writes a log line of level INFO or above to a logger.
func isLog(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch f.Sel.Name {
	case "Info", "Warn", "Error":
	default:
		return false
	}
	switch of := f.X.(type) {
	case *ast.Ident:
		return of.Name == "log" || of.Name == "slog"
	case *ast.SelectorExpr:
		return of.Sel.Name == "log" || of.Sel.Name == "Log"
	}
	return false
}

// logged returns the message of a log line and its code, both "" unless they are literals, and whether it has
// a code.
func logged(call *ast.CallExpr) (message, code string, has bool) {
	message = literal(call.Args[0])
	args := call.Args[1:]
	if len(args) == 1 { // attributes that a function puts in front
		if f, ok := args[0].(*ast.CallExpr); ok {
			args = f.Args
		}
	}
	for i := range args {
		if literal(args[i]) == "code" && i+1 < len(args) {
			return message, literal(args[i+1]), true
		}
	}
	return message, "", false
}

func literal(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, _ := strconv.Unquote(l.Value) // the parser has accepted the literal
		return s
	}
	return ""
}
