package workflow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"skein.dev/skein/internal/dag"

	"github.com/google/cel-go/cel"
	celcost "github.com/google/cel-go/checker"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	celref "github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Bounds of expressions.
const (
	exprBytesMax   = 4 << 10  // source of one expression
	resultBytesMax = 64 << 10 // text of one result
)

// A limit is the number of CEL's units that an evaluation may cost. 500,000 units are about a tenth of a
// second.
type limit uint8

const (
	limitStep   limit = iota // for expressions that the writer of a shard evaluates; about a millisecond
	limitFilter              // for expressions that a caller without credentials makes a node evaluate
	limitFull
	limits
)

var costMax = [limits]uint64{dag.StepCostMax, 100_000, 500_000}

// limit returns the bound of the cost of one evaluation in a scope. A condition of a task may cost more than
// a step allows; it is then evaluated outside of the step.
func (s scope) limit() limit {
	switch s {
	case inClaim, inTrigger, inDefault:
		return limitStep
	case inFilter, inEvent, inWaitEvent:
		return limitFilter
	}
	return limitFull
}

// language is the CEL environment without variables. It is built once and never changed.
var language = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(append(dateFunctions(),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(exprBytesMax),
		cel.ParserRecursionLimit(100))...)
})

// expression is one compiled CEL expression.
type expression struct {
	source string
	refs   []ref // each once
	out    *cel.Type
	path   *ref // set if the whole expression is one reference, so that no program is needed

	env      *cel.Env
	ast      *cel.Ast
	limit    limit
	programs [limits]program
}

// program is an expression with a limit for its cost. It is compiled at the first use.
type program struct {
	once   sync.Once
	is     cel.Program
	broken error
}

// plainPath matches an expression that is only one dotted path.
var plainPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[A-Za-z0-9_-]+"\])+$`)

func splitPath(source string) []string {
	source = strings.NewReplacer(`["`, ".", `"]`, "").Replace(source)
	return strings.Split(source, ".")
}

// compile compiles an expression with the declared names. d may be nil.
func (d *declarations) compile(source string, in scope) (*expression, []complaint) {
	x := &expression{source: source, limit: in.limit()}
	if len(source) > exprBytesMax {
		return nil, []complaint{{message: "the expression is longer than " + sizeText(exprBytesMax), hint: "compute it in a task"}}
	}
	if strings.TrimSpace(source) == "" {
		return nil, []complaint{{message: "the expression is empty"}}
	}
	if x.wellKnown(strings.TrimSpace(source), in) {
		return x, nil
	}
	if text := strings.TrimSpace(source); plainPath.MatchString(text) {
		if path := splitPath(text); slices.Contains(roots, path[0]) && len(path) == refLength(path) {
			r, typ, fault := d.resolve(path, in)
			if fault != nil {
				fault.offset = strings.Index(source, text)
				return nil, []complaint{*fault}
			}
			x.refs, x.out, x.path = []ref{r}, typ, &r
			return x, nil
		}
	}
	return x.compile(d, in)
}

// wellKnown recognises the usual conditions, for which no program is compiled.
func (x *expression) wellKnown(source string, in scope) bool {
	kind, ok := map[string]refKind{"success()": successRef, "failure()": failureRef, "always()": alwaysRef}[source]
	if !ok || in != inIf {
		return false
	}
	x.path = &ref{kind: kind}
	x.refs, x.out = []ref{*x.path}, cel.BoolType
	return true
}

func (x *expression) compile(d *declarations, in scope) (*expression, []complaint) {
	base, err := language()
	if err != nil {
		return nil, []complaint{{message: err.Error()}}
	}
	parsed, issues := base.Parse(x.source)
	if issues.Err() != nil {
		return nil, x.complaints(nil, issues)
	}
	w := refWalk{d: d, in: in, info: parsed.NativeRep().SourceInfo(), base: base, types: map[ref]*cel.Type{}}
	w.visit(parsed.NativeRep().Expr())
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	var variables []cel.EnvOption
	for _, r := range w.refs {
		variables = append(variables, cel.Variable(r.id(), w.types[r]))
	}
	env, err := base.Extend(variables...)
	if err != nil {
		return nil, []complaint{{message: err.Error()}}
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, x.complaints(parsed.NativeRep().SourceInfo(), issues)
	}
	x.refs, x.out, x.env, x.ast = w.refs, checked.OutputType(), env, checked
	if d != nil { // a stored expression is accepted, because its cost may be lower than the estimate
		if fault := x.tooCostly(); fault != nil {
			return nil, []complaint{*fault}
		}
	}
	return x, nil
}

// tooCostly returns a complaint if an expression certainly costs more than it may. This is certain if its
// least cost is too high, or if the expression itself determines the sizes of all its inputs.
func (x *expression) tooCostly() *complaint {
	cost, err := x.env.EstimateCost(x.ast, sizes{})
	most := costMax[x.limit]
	switch {
	case err != nil || cost.Max <= most || cost.Min <= most && cost.Max >= unboundCost:
		return nil
	case cost.Min > most:
		return &complaint{message: fmt.Sprintf("the expression costs at least %d units to evaluate, at most %d are allowed here", cost.Min, most),
			hint: "go through shorter lists, or compute it in a task"}
	}
	return &complaint{message: fmt.Sprintf("the expression costs up to %d units to evaluate, at most %d are allowed here", cost.Max, most),
		hint: "go through shorter lists, or compute it in a task"}
}

// sizes is an estimator that knows no sizes of values.
type sizes struct{}

func (sizes) EstimateSize(celcost.AstNode) *celcost.SizeEstimate { return nil }
func (sizes) EstimateCallCost(string, string, *celcost.AstNode, []celcost.AstNode) *celcost.CallEstimate {
	return nil
}

// unboundCost is an estimate that depends on an unknown size.
const unboundCost = 1 << 40

// complaints translates the errors of CEL. It returns at most three, because further errors usually follow
// from these.
func (x *expression) complaints(info *celast.SourceInfo, issues *cel.Issues) []complaint {
	var all []complaint
	for _, e := range issues.Errors() {
		offset := 0
		lines := strings.SplitAfter(x.source, "\n")
		for i := 0; i < e.Location.Line()-1 && i < len(lines); i++ {
			offset += len([]rune(lines[i]))
		}
		offset += max(e.Location.Column(), 0)
		message, hint := celWords(e.Message)
		all = append(all, complaint{offset: offset, message: message, hint: hint})
		if len(all) == 3 || info == nil { // after a syntax error, the remaining errors are not reliable
			break
		}
	}
	if len(all) == 0 {
		all = []complaint{{message: "the expression is not valid: " + issues.Err().Error()}}
	}
	return all
}

var noOverload = regexp.MustCompile(`^found no matching overload for '(.+)' applied to '(.*)'$`)

// celWords replaces an error of CEL by plain words.
func celWords(m string) (message, hint string) {
	if parts := noOverload.FindStringSubmatch(m); parts != nil {
		operands := strings.NewReplacer("(", "", ")", "", "wrapper(", "", "double", "float", ".", ", ").Replace(parts[2])
		symbol, ok := operators.FindReverse(parts[1])
		if !ok || symbol == "" {
			symbol = strings.Trim(parts[1], "_")
		}
		if strings.Contains(operands, "int") && strings.Contains(operands, "float") {
			hint = "write the number as 2.0, or convert with int() or double()"
		} else if strings.Contains(operands, "string") {
			hint = "convert with int(), double() or string()"
		}
		return symbol + " cannot be used with " + operands, hint
	}
	if rest, ok := strings.CutPrefix(m, "Syntax error: "); ok {
		rest, _, _ = strings.Cut(rest, " expecting ")
		if strings.Contains(rest, "<EOF>") {
			rest = "it ends too early"
		}
		return "this is not a valid expression: " + rest, "texts need quotes, == compares, && and || combine"
	}
	if strings.HasPrefix(m, "expected type 'bool' but found") {
		return "a condition must be true or false: " + m, ""
	}
	return m, ""
}

// run evaluates the expression. lookup returns the value of a ref.
func (x *expression) run(lookup func(ref) celref.Val) (celref.Val, error) {
	return x.within(x.limit, lookup)
}

// within evaluates the expression with a limit. If the evaluation costs more, the error is a costError.
func (x *expression) within(l limit, lookup func(ref) celref.Val) (celref.Val, error) {
	if x.path != nil {
		v := lookup(*x.path)
		return v, valueError(v)
	}
	p := &x.programs[l]
	p.once.Do(func() { p.is, p.broken = x.env.Program(x.ast, cel.CostLimit(costMax[l])) })
	if p.broken != nil {
		return nil, p.broken
	}
	vars := variables{refs: x.refs, lookup: lookup}
	v, _, err := p.is.Eval(&vars)
	if vars.err != nil {
		return nil, vars.err
	}
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded {
		return nil, costError{costMax[l]}
	}
	if err != nil {
		return nil, complaint{message: strings.TrimPrefix(err.Error(), "operation cancelled: ")}
	}
	return v, valueError(v)
}

// costError says that an evaluation cost more than it may.
type costError struct{ most uint64 }

func (e costError) Error() string {
	return fmt.Sprintf("its evaluation would cost more than %d units: go through shorter lists, or compute it in a task", e.most)
}

func valueError(v celref.Val) error {
	if e, ok := v.(*types.Err); ok {
		return e.Unwrap()
	}
	return nil
}
