package dagu

import (
	"encoding/json"
	"strconv"
	"strings"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// itemsMax is Dagu's own bound on the items.
const itemsMax = 1000

// source says where the items come from: a list in the file, or an expression that gives the list.
type source struct {
	items    []any // texts, and mappings from texts to texts
	list     string
	parallel int64
}

// items reads the items of parallel or foreach. If it cannot read them, why says the reason.
func (d *dag) items(s *step, f *importer.Fields, v *workflow.Value) (src source, why string) {
	if v == nil {
		return src, "the list of items is missing"
	}
	if n := f.Take("maxConcurrent"); n != nil {
		src.parallel, _ = importer.Int(n)
	}
	if src.parallel < 1 || src.parallel > itemsMax {
		src.parallel = 10 // Dagu's default
	}
	if v.Kind == workflow.ListValue {
		for _, e := range v.Vals {
			item := any(e.Str())
			if e.Kind == workflow.MapValue {
				m := map[string]string{}
				for i, k := range e.Keys {
					m[k.Text] = e.Vals[i].Str()
				}
				item = m
			}
			src.items = append(src.items, item)
		}
		return src, d.countable(src)
	}
	m := reference.FindStringSubmatch(strings.TrimSpace(v.Str()))
	if m == nil || m[0] != strings.TrimSpace(v.Str()) {
		var list []any
		if json.Unmarshal([]byte(v.Str()), &list) != nil {
			return src, "the items are neither a list nor a whole parameter or output"
		}
		for _, e := range list {
			if _, ok := e.(string); !ok {
				return src, "the items are part of a text, but are no texts themselves"
			}
		}
		src.items = list
		return src, d.countable(src)
	}
	src.list, why = d.listOf(m[1]+m[2], s)
	return src, why
}

func (*dag) countable(src source) string {
	if len(src.items) == 0 || len(src.items) > itemsMax {
		return "the list has no items, or more than " + strconv.Itoa(itemsMax)
	}
	raw, _ := json.Marshal(src.items)
	if strings.Contains(string(raw), "${") {
		return "the items contain references"
	}
	return ""
}

// listOf returns the list of a reference: a parameter, or an output of an earlier step.
func (d *dag) listOf(name string, s *step) (list, why string) {
	key := strings.TrimPrefix(name, "params.")
	if p, ok := d.params[key]; ok {
		if err := d.ListParam(p); err != nil {
			return "", err.Error()
		}
		return importer.Member("params", p), ""
	}
	from, output, _ := d.producer(name, s)
	if from == nil || from.opaque != "" {
		return "", "${" + importer.Clip(name, 60) + "} is neither a parameter nor an output of an earlier step"
	}
	return from.asJSON(output), ""
}

// asJSON returns the expression for an output as JSON, so that its members can be read.
func (s *step) asJSON(output string) string {
	if s.task.HTTP != nil {
		s.task.HTTP.Answer = "json"
		return importer.TaskOutput(s.task.Name, "body")
	}
	s.task.Approximate("the output " + output + " is read as JSON: if it is not JSON, the task fails")
	return importer.TaskOutput(s.task.Name, s.task.AsList(output))
}

// repeat converts foreach. If the body has one step, this step becomes the task itself.
func (d *dag) repeat(s *step, v *workflow.Value) {
	f := importer.NewFields(v)
	src, why := d.items(s, f, f.Take("items"))
	body := f.Take("steps")
	switch {
	case why != "":
		s.task.Drop("foreach: "+why, "write foreach by hand")
		return
	case body == nil || len(body.Vals) != 1:
		s.task.Drop("foreach: the body has several steps, but foreach repeats a single task", "write the body as one script")
		return
	}
	name := f.Take("as").Str()
	if name == "" {
		name = "item"
	}
	s.item = "foreach." + name
	if k := f.Take("key"); k != nil {
		d.Approximate(k, "foreach.key: instances are named by numbers here: "+s.task.Name+".0 and so on")
	}
	if c := f.Take("collect"); c != nil {
		d.Drop(c, "foreach.collect: the outputs of the instances are in the list tasks."+s.task.Name+".outputs", "read that list")
	}
	f.Rest(nil, func(key *workflow.Value, why string) { d.Drop(key, "foreach."+why, "") })
	if s.output != "" {
		s.opaque = "the value is Dagu's report about all items; read the list tasks." + s.task.Name + ".outputs"
	}
	s.task.Each = &importer.Each{Items: src.items, List: src.list, Parallel: src.parallel}
	s.fields = importer.NewFields(body.Vals[0])
	s.fields.Take("id", "name")
	s.fields.Take("name")
	if o := s.fields.Take("output"); o != nil && s.output == "" && o.Kind == workflow.ScalarValue && simpleName.MatchString(o.Text) {
		s.output, s.opaque = o.Text, "the value exists only inside of the foreach"
	}
	d.fill(s)
	if s.task.Approval != nil || s.task.Wait != 0 {
		s.task.Each = nil
		s.task.Drop("foreach: the body is an approval or a pause, which foreach does not repeat", "write one task without foreach")
	}
}

// itemText returns the item of a foreach as a text.
func (s *step) itemText(name string) (value importer.Text, missing string, ok bool) {
	rest, ok := strings.CutPrefix(name, s.item)
	if s.item == "" || !ok || rest != "" && rest[0] != '.' {
		return nil, "", false
	}
	key := strings.TrimPrefix(rest, ".")
	if key == "" {
		return importer.Expr("item"), "", true
	}
	for _, item := range s.items {
		m, _ := item.(map[string]string)
		if _, has := m[key]; !has {
			return nil, "${" + importer.Clip(name, 60) + "} is not a member of the item", true
		}
	}
	return importer.Expr(importer.Member("item", key)), "", true
}
