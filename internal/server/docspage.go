package server

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
)

//go:embed docs.css
var docsCSS string

// docsPage renders the document on the server. The page needs no script and loads nothing from other sites.
func docsPage(doc []byte) (http.Handler, error) {
	var v docsView
	if err := json.Unmarshal(doc, &v); err != nil {
		return nil, fmt.Errorf("documentation page: %w", err)
	}
	var m markup
	m.page(&v)
	sum := sha256.Sum256([]byte(docsCSS))
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	page := m.String()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		_, _ = io.WriteString(w, page) // an error means that the client is gone
	}), nil
}

// markup is a page in HTML. Templates of the standard library would make the program some megabytes larger:
// they call methods by their names, so the linker keeps every exported method.
type markup struct{ strings.Builder }

// put adds HTML. The format has a %s for each text, and the texts are escaped.
func (m *markup) put(format string, texts ...any) {
	for i, text := range texts {
		texts[i] = html.EscapeString(fmt.Sprint(text))
	}
	fmt.Fprintf(m, format, texts...)
}

// page adds the whole page.
func (m *markup) page(v *docsView) {
	m.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s API</title>
<style>`, v.Info.Title)
	m.WriteString(docsCSS)
	m.put(`</style>
</head>
<body>
<header>
<h1>%s API <small>%s</small></h1>
<p>%s</p>
<p>The same for machines: <a href="/api/v1/openapi.json">openapi.json</a> (OpenAPI 3.1).</p>
</header>
<main>
`, v.Info.Title, v.Info.Version, v.Info.Description)
	for _, tag := range v.Tags {
		m.put("<section>\n<h2 id=\"%s\">%s</h2>\n<p>%s</p>\n", tag.Name, tag.Name, tag.Description)
		for _, route := range v.Operations(tag.Name) {
			m.route(&route)
		}
		m.put("</section>\n")
	}
	m.put("<section>\n<h2 id=\"schemas\">schemas</h2>\n")
	for _, name := range sortedKeys(v.Components.Schemas) {
		m.put("<details id=\"schema-%s\">\n<summary><code>%s</code></summary>\n<table>\n", name, name)
		properties := v.Components.Schemas[name].Properties
		for _, field := range sortedKeys(properties) {
			is := properties[field]
			m.put("<tr><th><code>%s</code></th><td>", field)
			m.schema(&is)
			m.values(is.Enum)
			m.put("</td><td>%s</td></tr>\n", is.Description)
		}
		m.put("</table>\n</details>\n")
	}
	m.put("</section>\n</main>\n</body>\n</html>\n")
}

// route adds an operation.
func (m *markup) route(r *docsRoute) {
	m.put("<details id=\"%s\">\n<summary><b class=\"%s\">%s</b> <code>%s</code> <span>%s</span></summary>\n",
		r.Op.OperationID, r.Method, r.Method, r.Path, r.Op.Summary)
	if r.Op.Description != "" {
		m.put("<p>%s</p>\n", r.Op.Description)
	}
	if len(r.Op.Parameters) > 0 {
		m.put("<table>\n<caption>Parameters</caption>\n")
		for _, p := range r.Op.Parameters {
			m.put("<tr><th><code>%s</code></th><td>%s", p.Name, p.In)
			if p.Required {
				m.put(", required")
			}
			m.put("</td><td>")
			m.schema(&p.Schema)
			m.values(p.Schema.Enum)
			if p.Schema.Default != nil {
				m.put(", default <code>%s</code>", p.Schema.Default)
			}
			m.put("</td><td>%s</td></tr>\n", p.Description)
		}
		m.put("</table>\n")
	}
	if body := r.Op.RequestBody.Content; len(body) > 0 {
		m.put("<table>\n<caption>Body</caption>\n")
		for _, media := range sortedKeys(body) {
			m.put("<tr><th><code>%s</code></th><td>", media)
			is := body[media].Schema
			m.schema(&is)
			m.put("</td></tr>\n")
		}
		m.put("</table>\n")
	}
	m.put("<table>\n<caption>Answers</caption>\n")
	for _, status := range sortedKeys(r.Op.Responses) {
		answer := r.Op.Responses[status]
		m.put("<tr><th>%s</th><td>", status)
		for _, media := range sortedKeys(answer.Content) {
			m.put("<code>%s</code> ", media)
			is := answer.Content[media].Schema
			m.schema(&is)
		}
		m.put("</td><td>%s</td></tr>\n", answer.Description)
	}
	m.put("</table>\n</details>\n")
}

// schema adds the type of a value, or a link to it.
func (m *markup) schema(d *docsSchema) {
	if name := d.Name(); name != "" {
		m.put("<a href=\"#schema-%s\">%s</a>", name, name)
		return
	}
	m.put("%s", d.Kind())
	if d.Items != nil {
		m.put(" of ")
		m.schema(d.Items)
	}
	if d.Format != "" {
		m.put(" <i>%s</i>", d.Format)
	}
}

// values adds the values that a value may have, if they are listed.
func (m *markup) values(all []any) {
	for i, one := range all {
		between := ": "
		if i > 0 {
			between = ", "
		}
		m.put("%s<code>%s</code>", between, one)
	}
}

// docsView is the part of the document that the page shows.
type docsView struct {
	Info  struct{ Title, Version, Description string }
	Tags  []struct{ Name, Description string }
	Paths map[string]map[string]docsOperation

	Components struct {
		Schemas map[string]docsSchema
	}
}

type docsOperation struct {
	OperationID string
	Summary     string
	Description string
	Tags        []string
	Parameters  []struct {
		Name, In, Description string
		Required              bool
		Schema                docsSchema
	}
	RequestBody struct {
		Content map[string]docsMedia
	}
	Responses map[string]struct {
		Description string
		Content     map[string]docsMedia
	}
}

type docsMedia struct{ Schema docsSchema }

type docsSchema struct {
	Ref         string `json:"$ref"`
	Type        any
	Format      string
	Description string
	Enum        []any
	Default     any
	Minimum     *float64
	Maximum     *float64
	Items       *docsSchema
	Properties  map[string]docsSchema
	Required    []string
	// Additional is true, false or a schema.
	Additional any `json:"additionalProperties"`
}

// Name is the name of the schema that a reference points to.
func (d docsSchema) Name() string {
	const prefix = "#/components/schemas/"
	if len(d.Ref) > len(prefix) {
		return d.Ref[len(prefix):]
	}
	return ""
}

// Kind is the type in a word or two.
func (d docsSchema) Kind() string {
	switch t := d.Type.(type) {
	case string:
		return t
	case []any:
		text := ""
		for i, one := range t {
			if i > 0 {
				text += " or "
			}
			text += fmt.Sprint(one)
		}
		return text
	}
	return ""
}

// Operations returns the operations of a tag, by path and method.
func (v *docsView) Operations(tag string) []docsRoute {
	var out []docsRoute
	for _, path := range sortedKeys(v.Paths) {
		for _, method := range sortedKeys(v.Paths[path]) {
			if op := v.Paths[path][method]; len(op.Tags) > 0 && op.Tags[0] == tag {
				out = append(out, docsRoute{Method: method, Path: path, Op: op})
			}
		}
	}
	return out
}

type docsRoute struct {
	Method, Path string
	Op           docsOperation
}
