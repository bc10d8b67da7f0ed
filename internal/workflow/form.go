package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// Field is a field of the form of an approval. A person who approves fills it in, and the task has an output
// of its name.
type Field struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"` // string | text | integer | number | boolean | enum | date
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Options     []string        `json:"options,omitempty"` // values of an enum
	Pattern     string          `json:"pattern,omitempty"` // a regular expression for the whole of a string or text
	// Min and Max bound the value of an integer or number, or the number of characters of a string or text.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
}

const (
	formFieldsMax  = 20
	formOptionsMax = 100
	formPatternMax = 500      // bytes
	formStepsMax   = 1000     // instructions of a compiled pattern: a match costs their number times the text
	formLineMax    = 1000     // bytes of a string, an option or a description
	formTextMax    = 10_000   // bytes of a text
	formBytesMax   = 32 << 10 // bytes of all answers together
)

func formShape() *shape {
	kinds := oneOf("string", "text", "integer", "number", "boolean", "enum", "date")
	kinds.means = map[string]string{"int": "integer", "float": "number", "bool": "boolean", "str": "string"}
	const most = 1e15
	return table("a mapping of fields, such as {amount: {type: number, min: 0}}", keyName(),
		forms("a type such as string, or a mapping such as {type: number, min: 0}", kinds, object("",
			key{name: "type", doc: "string (default), text of several lines, integer, number, boolean, enum or date.", shape: kinds},
			key{name: "description", doc: "What is asked, for people.", shape: textOrNothing("a text")},
			key{name: "required", doc: "Whether an approval must have it. Without a default the answer is true.", shape: boolean()},
			key{name: "default", doc: "The value if the approval has none.", shape: &shape{kind: anyShape}},
			key{name: "options", doc: "The texts that an enum allows.", shape: list("a list of texts", text("a text"))},
			key{name: "pattern", doc: "A regular expression for the whole of a string or text.", shape: text("a regular expression")},
			key{name: "min", doc: "The least number, or the least number of characters.", shape: number(-most, most)},
			key{name: "max", doc: "The greatest number, or the greatest number of characters.", shape: number(-most, most)},
		)))
}

// form reads the form of an approval, and returns the outputs that its fields become.
func (r *reader) form(n *node, at string) (fields []Field, outputs []Output) {
	if n == nil || n.kind != mapNode {
		return nil, nil
	}
	if len(n.keys) > formFieldsMax {
		r.failNode(n, at, fmt.Sprintf("%d fields are more than the limit of %d", len(n.keys), formFieldsMax), "ask for less, or use two approvals")
		return nil, nil
	}
	size := 0
	for i, k := range n.keys {
		here := join(at, k.text)
		if slices.ContainsFunc(approvalOutputs, func(o Output) bool { return o.Name == k.text }) {
			r.failNode(k, here, "every approval has the output "+k.text+", so no field has this name", "choose another name")
		}
		f := r.field(k.text, n.vals[i], here)
		fields, outputs = append(fields, f), append(outputs, Output{Name: f.Name, Type: f.value().Type, Null: !f.Required && f.Default == nil})
		size += len(f.Name) + len(f.Default)
	}
	if size > formBytesMax {
		r.failNode(n, at, fmt.Sprintf("the defaults are larger than the limit of %s for all answers", sizeText(formBytesMax)), "shorten them")
	}
	return fields, outputs
}

func (r *reader) field(name string, n *node, at string) Field {
	f := Field{Name: name, Type: "string", Required: true}
	if n.kind != mapNode {
		f.Type = firstText(n.str(), f.Type)
	} else {
		f.Type = firstText(n.get("type").str(), f.Type)
		f.Description, f.Pattern, f.Options = n.get("description").str(), n.get("pattern").str(), texts(n.get("options"))
		f.Min, f.Max = bound(n.get("min")), bound(n.get("max"))
		if v := n.get("required"); v != nil {
			f.Required, _ = v.bool()
		}
	}
	before := len(r.errs)
	r.fieldKeys(&f, n, at)
	if v := n.get("default"); v != nil && !v.isNull() && len(r.errs) == before {
		r.fieldDefault(&f, n, v, at)
	}
	return f
}

// fieldKeys checks that the keys of a field fit its type and each other.
func (r *reader) fieldKeys(f *Field, n *node, at string) {
	fail := func(key, message, hint string) {
		place := n
		if v := n.get(key); v != nil {
			place = v
		}
		r.failNode(place, join(at, key), message, hint)
	}
	lines, numbers := f.Type == "string" || f.Type == "text", f.Type == "integer" || f.Type == "number"
	switch {
	case len(f.Description) > formLineMax:
		fail("description", fmt.Sprintf("the description has %d bytes, the limit is %d", len(f.Description), formLineMax), "put the rest into the message of the approval")
	case (f.Type == "enum") != (len(f.Options) > 0):
		fail("options", "a field of type enum has options, and no other field has them", "write {type: enum, options: [a, b]}")
	case len(f.Options) > formOptionsMax:
		fail("options", fmt.Sprintf("%d options are more than the limit of %d", len(f.Options), formOptionsMax), "use a string")
	case slices.ContainsFunc(f.Options, func(o string) bool { return len(o) > formLineMax }):
		fail("options", fmt.Sprintf("an option has more than %d bytes", formLineMax), "shorten it")
	case f.Pattern != "" && !lines:
		fail("pattern", "a pattern belongs to a string or text, but the type of this field is "+f.Type, "remove pattern")
	case (f.Min != nil || f.Max != nil) && !lines && !numbers:
		key := "min"
		if f.Min == nil {
			key = "max"
		}
		fail(key, "min and max do not belong to a field of type "+f.Type, "remove them")
	case f.Min != nil && f.Max != nil && *f.Min > *f.Max:
		fail("min", fmt.Sprintf("min is %v and max is %v, so no value fits", *f.Min, *f.Max), "exchange them")
	}
	if _, err := f.regexp(); err != nil {
		fail("pattern", err.Error(), "the syntax is that of https://golang.org/s/re2syntax")
	}
	r.unique(n.get("options"), join(at, "options"))
}

// fieldDefault reads the default of a field. A field with a default is not required.
func (r *reader) fieldDefault(f *Field, n, v *node, at string) {
	if n.get("required") != nil && f.Required {
		r.failNode(v, join(at, "default"), "a field with a default is never required", "remove required or default")
	}
	given := v.value()
	if f.value().Type == String && v.isText() { // 5 and true are texts here, as everywhere
		given = v.text
	}
	raw, err := f.check(given)
	if err != nil {
		r.failNode(v, join(at, "default"), "the default "+err.Error(), "change it")
	}
	f.Default, f.Required = raw, false
}

func bound(n *node) *float64 {
	if n == nil {
		return nil
	}
	if v, ok := n.float(); ok {
		return &v
	}
	return nil
}

// value describes the values of the field in the form of a parameter.
func (f *Field) value() Param {
	p := Param{Name: f.Name, Type: map[string]Type{"integer": Int, "number": Float, "boolean": Bool}[f.Type]}
	if p.Type == "" {
		p.Type = String
	}
	if f.Type == "date" {
		p.Format = "date"
	}
	return p
}

// regexp compiles the pattern, for the whole of a text. It refuses a pattern whose match would be too slow.
func (f *Field) regexp() (*regexp.Regexp, error) {
	if len(f.Pattern) > formPatternMax {
		return nil, fmt.Errorf("the pattern has %d bytes, the limit is %d", len(f.Pattern), formPatternMax)
	}
	tree, err := syntax.Parse(f.Pattern, syntax.Perl) // alone, so that it cannot end the group around it below
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > formStepsMax {
		return nil, fmt.Errorf("the pattern has %d instructions when its repetitions, such as {1,500}, are written out, and the limit is %d; use smaller repetitions", n, formStepsMax)
	}
	return regexp.Compile(`\A(?:` + f.Pattern + `)\z`)
}

// check returns the JSON of a value, or an error that says why the value is not valid.
func (f *Field) check(v any) (json.RawMessage, error) {
	p := f.value()
	raw, err := p.convert(v, true)
	if err != nil {
		return nil, err
	}
	size, unit := 0.0, ""
	switch text, _ := jsonString(raw); f.Type {
	case "enum":
		if !slices.Contains(f.Options, text) {
			return nil, fmt.Errorf("must be one of %s, not %s", strings.Join(f.Options, ", "), shown(v))
		}
		return raw, nil
	case "string", "text":
		most := map[string]int{"string": formLineMax, "text": formTextMax}[f.Type]
		switch {
		case len(text) > most:
			return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), most)
		case f.Type == "string" && strings.ContainsAny(text, "\r\n"):
			return nil, errors.New("must be one line")
		case f.Required && text == "":
			return nil, errors.New("is required")
		}
		if re, err := f.regexp(); f.Pattern != "" && (err != nil || !re.MatchString(text)) {
			return nil, fmt.Errorf("must match %s, not %s", f.Pattern, shown(v))
		}
		size, unit = float64(utf8.RuneCountInString(text)), " characters"
	case "integer", "number":
		if err := json.Unmarshal(raw, &size); err != nil {
			return nil, err
		}
	default:
		return raw, nil
	}
	if f.Min != nil && size < *f.Min {
		return nil, fmt.Errorf("must be at least %v%s, not %s", *f.Min, unit, shown(v))
	}
	if f.Max != nil && size > *f.Max {
		return nil, fmt.Errorf("must be at most %v%s, not %s", *f.Max, unit, shown(v))
	}
	return raw, nil
}

// Answers checks the answers of a person, and returns a value for each field of the form. A field that is
// not required and has no default is null. The error is a ValueErrors with every fault.
func (a *Approval) Answers(given map[string]any) (map[string]json.RawMessage, error) {
	var errs ValueErrors
	total := 0
	for _, v := range given {
		text, _ := v.(string)
		total += len(text)
	}
	if total > formBytesMax { // before any pattern is matched
		return nil, ValueErrors{tooLongAnswers()}
	}
	for _, name := range sortedKeys(given) {
		if !slices.ContainsFunc(a.Form, func(f Field) bool { return f.Name == name }) {
			errs = append(errs, ValueError{Name: name, Message: "the form has no field " + quoteShort(name)})
		}
	}
	out, size := map[string]json.RawMessage{}, 0
	for i := range a.Form {
		f := &a.Form[i]
		v, is := given[f.Name]
		switch {
		case is && v != nil:
			raw, err := f.check(v)
			if err != nil {
				errs = append(errs, ValueError{Name: f.Name, Message: "field " + f.Name + " " + err.Error(), Hint: f.Description})
			}
			out[f.Name] = raw
		case f.Required:
			errs = append(errs, ValueError{Name: f.Name, Message: "field " + f.Name + " is required: a value of type " + f.Type, Hint: f.Description})
		case f.Default != nil:
			out[f.Name] = f.Default
		default:
			out[f.Name] = json.RawMessage("null")
		}
		size += len(f.Name) + len(out[f.Name])
	}
	if size > formBytesMax {
		errs = append(errs, tooLongAnswers())
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return out, nil
}

func tooLongAnswers() ValueError {
	return ValueError{Message: fmt.Sprintf("the answers are larger than %s together", sizeText(formBytesMax)), Hint: "put data into a file and give its path"}
}

// Words describes answers for the audit log: a value if its type cannot hold a secret, else only the name of
// the field.
func (a *Approval) Words(answers map[string]json.RawMessage) string {
	var all []string
	for i := range a.Form {
		f := &a.Form[i]
		switch raw := answers[f.Name]; {
		case string(raw) == "null":
		case f.Type == "string" || f.Type == "text":
			all = append(all, f.Name+" (text)")
		default:
			all = append(all, f.Name+"="+string(raw))
		}
	}
	return strings.Join(all, ", ")
}
