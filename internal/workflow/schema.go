package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// SchemaID is the address at which the schema claims to be.
const SchemaID = "https://skein.dev/schema/workflow/v1.json"

// Schema returns the JSON Schema (2020-12) of a workflow file. It is made from the grammar that Parse uses,
// so editors complete and check the same keys.
func Schema() []byte {
	root := grammar().jsonSchema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Skein workflow"
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		// this cannot happen, because the schema consists of maps and texts
		panic(fmt.Sprintf("workflow: the schema is not JSON: %v", err))
	}
	return append(out, '\n')
}

func (sh *shape) jsonSchema() map[string]any {
	out := map[string]any{}
	switch sh.kind {
	case scalarShape:
		maps.Copy(out, sh.schema)
	case listShape:
		out["type"] = "array"
		out["items"] = sh.item.jsonSchema()
		if sh.least > 0 {
			out["minItems"] = sh.least
		}
	case tableShape:
		out["type"] = "object"
		out["additionalProperties"] = sh.item.jsonSchema()
		if re, ok := sh.name.schema["pattern"]; ok {
			out["propertyNames"] = map[string]any{"pattern": re}
		}
	case formsShape:
		var any []any
		for _, f := range sh.forms {
			any = append(any, f.jsonSchema())
		}
		out["anyOf"] = any
	case objectShape:
		sh.objectSchema(out)
	}
	return out
}

func (sh *shape) objectSchema(out map[string]any) {
	maps.Copy(out, sh.schema)
	properties := map[string]any{}
	var required []string
	for _, k := range sh.keys {
		p := k.shape.jsonSchema()
		p["description"] = k.doc
		if k.later != "" {
			p["description"] = strings.TrimSuffix(k.doc, ".") + ". (" + later[k.later] + ")"
		}
		properties[k.name] = p
		if k.must && k.unless == nil {
			required = append(required, k.name)
		}
	}
	out["type"] = "object"
	out["properties"] = properties
	out["additionalProperties"] = false
	if required != nil {
		out["required"] = required
	}
	if sh.choose != nil {
		var one []any
		for _, name := range sh.choose {
			one = append(one, map[string]any{"required": []string{name}})
		}
		out["oneOf"] = one
	}
}
