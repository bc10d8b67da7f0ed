package dagu

import (
	"regexp"
	"slices"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// parameters reads params in all its forms: one line, a list, a mapping, a list of rich entries, a schema.
func (d *dag) parameters(v *workflow.Value) {
	switch {
	case v.Null():
	case v.Kind == workflow.ScalarValue:
		for _, w := range splitLine(v.Text) {
			d.pair(v, w)
		}
	case v.Kind == workflow.ListValue:
		for _, e := range v.Vals {
			if e.Kind == workflow.MapValue {
				d.parameterMap(e)
			} else {
				d.pair(e, e.Str())
			}
		}
	case v.Get("schema") != nil:
		d.Drop(v, "params: the importer does not read a schema in another file", "declare the parameters in the workflow")
	case v.Get("properties") != nil:
		p := v.Get("properties")
		for i, k := range p.Keys {
			d.rich(k, k.Text, p.Vals[i])
		}
	default:
		d.parameterMap(v)
	}
}

// parameterMap converts {NAME: default, …} or {name: NAME, default: …}.
func (d *dag) parameterMap(v *workflow.Value) {
	if name := v.Get("name"); name != nil && (len(v.Keys) > 1 || v.Get("default") != nil) && simpleName.MatchString(name.Str()) {
		d.rich(name, name.Str(), v)
		return
	}
	for i, k := range v.Keys {
		if v.Vals[i].Kind == workflow.MapValue {
			d.rich(k, k.Text, v.Vals[i])
			continue
		}
		value := v.Vals[i].Str()
		d.parameter(k, k.Text, &value)
	}
}

// pair converts NAME=default, or the default of a parameter without a name.
func (d *dag) pair(at *workflow.Value, text string) {
	name, value, named := strings.Cut(text, "=")
	switch {
	case named && simpleName.MatchString(name):
		value = strings.Trim(value, `"'`)
		d.parameter(at, name, &value)
	case simpleName.MatchString(text) && text == strings.ToUpper(text) && at.Kind == workflow.ScalarValue && text == at.Text:
		d.parameter(at, text, nil)
	default:
		text = strings.Trim(text, `"'`)
		number := string(rune('1' + min(len(d.Params), 8)))
		d.parameter(at, number, &text)
		d.Approximate(at, "params: the parameter $"+number+" has the name "+d.params[number]+" here")
	}
}

// rich converts a parameter with a type, a description and more.
func (d *dag) rich(at *workflow.Value, name string, v *workflow.Value) {
	f := importer.NewFields(v)
	f.Take("name")
	var value *string
	if dflt := f.Take("default"); dflt != nil {
		text := dflt.Str()
		value = &text
	}
	d.parameter(at, name, value)
	p := &d.Params[len(d.Params)-1]
	p.Description = f.Take("description").Str()
	required := f.Take("required")
	if value == nil && required != nil && !importer.IsTrue(required) {
		p.Default = new(string)
	}
	switch f.Take("type").Str() {
	case "integer":
		p.Type = workflow.Int
	case "number":
		p.Type = workflow.Float
	case "boolean":
		p.Type = workflow.Bool
	}
	if e := f.Take("enum"); e != nil && p.Type == "" {
		p.Enum = importer.Texts(e)
	}
	f.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "params."+name+"."+why, "") })
}

func (d *dag) parameter(at *workflow.Value, name string, value *string) {
	if _, dup := d.params[name]; dup {
		d.Drop(at, "params: "+importer.Clip(name, 60)+" is declared twice", "keep one of the two")
		return
	}
	key := importer.KeyName(name)
	if slices.ContainsFunc(d.Params, func(p importer.Param) bool { return p.Name == key }) {
		d.Drop(at, "params: "+importer.Clip(name, 60)+" would get the name of another parameter", "rename it")
		return
	}
	if value != nil && commands.MatchString(*value) {
		d.Drop(at, "the default of "+importer.Clip(name, 60)+" is the output of a command, so each start must give the parameter", "compute the value as an output of a task")
		value = nil
	}
	d.params[name] = key
	d.Params = append(d.Params, importer.Param{Name: key, Default: value})
	text := importer.Expr(importer.Member("params", key))
	d.env[key] = text
	d.Env = append(d.Env, importer.Var{Name: key, Value: text})
}

var (
	simpleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	commands   = regexp.MustCompile("`|\\$\\(")
)

// splitLine splits a line at blanks outside of quotes.
func splitLine(text string) []string {
	var all []string
	var b strings.Builder
	var quote rune
	for _, r := range text {
		switch {
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if b.Len() > 0 {
				all = append(all, b.String())
				b.Reset()
			}
			continue
		case quote == 0 && (r == '"' || r == '\'' || r == '`'):
			quote = r
		case r == quote:
			quote = 0
		}
		b.WriteRune(r)
	}
	if b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}

// constants adds the variables whose values the file itself gives.
func (d *dag) constants(v *workflow.Value) {
	d.eachPair(v, "consts", func(at *workflow.Value, name, value string) {
		d.env["consts."+name] = d.value(at, value, nil)
	})
}

// environment reads env: a mapping, a list of mappings, or a list of NAME=value.
func (d *dag) environment(v *workflow.Value) {
	d.eachPair(v, "env", func(at *workflow.Value, name, value string) {
		if commands.MatchString(value) {
			d.Drop(at, "env: "+name+" is the output of a command", "compute the value as an output of a task, or in the script that needs it")
			return
		}
		text := d.value(at, value, nil)
		if strings.HasPrefix(name, "SKEIN_") {
			d.Drop(at, "env: names that begin with SKEIN_ are reserved", "choose another name")
			return
		}
		d.env[name] = text
		if i := slices.IndexFunc(d.Env, func(k importer.Var) bool { return k.Name == name }); i >= 0 {
			d.Env[i].Value = text
			return
		}
		d.Env = append(d.Env, importer.Var{Name: name, Value: text})
	})
}

// eachPair calls see for each pair in {NAME: value}, [{NAME: value}] or [NAME=value].
func (d *dag) eachPair(v *workflow.Value, key string, see func(at *workflow.Value, name, value string)) {
	switch {
	case v.Null():
	case v.Kind == workflow.ListValue:
		for _, e := range v.Vals {
			d.eachPair(e, key, see)
		}
	case v.Kind == workflow.ScalarValue:
		name, value, ok := strings.Cut(v.Text, "=")
		if !ok || !simpleName.MatchString(name) {
			d.Drop(v, key+": "+importer.Clip(v.Text, 60)+" is not NAME=value", "write NAME: value")
			return
		}
		see(v, name, value)
	default:
		for i, k := range v.Keys {
			if !simpleName.MatchString(k.Text) || v.Vals[i].Kind != workflow.ScalarValue {
				d.Drop(k, key+": "+importer.Clip(k.Text, 60)+" is not a valid variable of a task: a name has letters, digits and _, and the value is a text", "choose another name")
				continue
			}
			see(k, k.Text, v.Vals[i].Str())
		}
	}
}
