package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/google/cel-go/cel"
)

// Expectation is a condition on the result of a statement of SQL: the key expect of a task.
type Expectation struct {
	program cel.Program
	reads   map[string]bool
}

// expectNames are the values that an expectation may read.
var expectNames = []string{"columns", "row", "rows", "rows_affected"}

// expectLanguage is the environment of expectations.
var expectLanguage = sync.OnceValues(func() (*cel.Env, error) {
	base, err := language()
	if err != nil {
		return nil, err
	}
	return base.Extend(cel.Variable("columns", cel.ListType(cel.StringType)), cel.Variable("row", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("rows", cel.ListType(cel.MapType(cel.StringType, cel.DynType))), cel.Variable("rows_affected", cel.IntType))
})

var celWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// ParseExpectation compiles an expectation.
func ParseExpectation(text string) (*Expectation, error) {
	env, err := expectLanguage()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, errors.New(issues.Errors()[0].Message)
	}
	if !isBoolean(ast.OutputType()) {
		return nil, fmt.Errorf("a condition must be true or false, and this one has the type %s", ast.OutputType())
	}
	x := &Expectation{reads: map[string]bool{}}
	for _, word := range celWord.FindAllString(text, -1) { // a word that is not a name is harmless: it only costs memory
		x.reads[word] = true
	}
	x.program, err = env.Program(ast, cel.CostLimit(costMax[limitFull]))
	return x, err
}

// Reads reports whether the condition reads columns, row, rows or rows_affected.
func (x *Expectation) Reads(name string) bool { return x.reads[name] }

// Holds evaluates the condition. values must have columns, row, rows and rows_affected. Holds replaces each
// json.Number in the rows by an int or a float.
func (x *Expectation) Holds(values map[string]any) (bool, error) {
	for _, name := range expectNames {
		if _, ok := values[name]; !ok && x.reads[name] {
			return false, fmt.Errorf("%s is not known", name)
		}
	}
	out, _, err := x.program.Eval(numbers(values))
	if err != nil {
		return false, err
	}
	is, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("a condition must be true or false, and this one has the type %v", out.Type())
	}
	return is, nil
}
