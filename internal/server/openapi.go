package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	api "skein.dev/skein/sdk/api/v1"
)

// humaConfig turns off huma's own pages: its documentation loads scripts from other sites, and its schema
// links would add a field to every object.
func (s *Server) humaConfig() huma.Config {
	format := huma.Format{Marshal: marshal, Unmarshal: unmarshal}
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Skein", Version: api.APIVersion, Description: description,
				License: &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}},
			Tags: []*huma.Tag{{Name: "runs", Description: "One execution of a workflow's version, and its tasks."},
				{Name: "workflows", Description: "Named definitions and their immutable versions."},
				{Name: "schedules", Description: "Triggers of workflows, the ledger of their fires, and what will come."},
				{Name: "backfills", Description: "Runs for instants of the past."},
				{Name: "sessions", Description: "People who have signed in, and the codes that sign a browser in."},
				{Name: "users", Description: "People and programs that call on their own behalf."},
				{Name: "roles", Description: "Sets of verbs, and who has them in which namespace."},
				{Name: "classes", Description: "Resource classes: names for what tasks take of their worker."},
				{Name: "namespaces", Description: "The quotas of namespaces, and what their runs use of them."},
				{Name: "secrets", Description: "Values that tasks use by name. No call gives a value."},
				{Name: "connections", Description: "How tasks reach other systems. No call gives the value of a secret."},
				{Name: "git sources", Description: "Repositories from which namespaces get workflows."},
				{Name: "alerts", Description: "Incidents of alert rules, and the channels by which people are notified."},
				{Name: "queues", Description: "Named queues and locks, which runs of all workflows share."},
				{Name: "nodes", Description: "The processes."}, {Name: "tokens", Description: "The rights to call."}, {Name: "audit", Description: "Who changed what."}},
			Components: &huma.Components{Schemas: registry},
		},
		Formats:       map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{s.transform},
	}
}

const description = "Skein runs graphs of tasks. Every list is {items, next}; every error is application/problem+json (RFC 9457) with a stable code. " +
	"Instants are RFC 3339, UTC, with microseconds. A 2xx to a POST means that it is on disk. " +
	"Words used elsewhere: PROCESSING is running, CLAIMED is assigned, COMPLETED, SUCCEED and Done are succeeded."

// document completes the OpenAPI document after all routes are registered.
func (s *Server) document() {
	o := s.api.OpenAPI()
	reg := o.Components.Schemas
	problem := &huma.Response{Description: "The problem, and its remedy.",
		Content: map[string]*huma.MediaType{"application/problem+json": {Schema: reg.Schema(reflect.TypeFor[api.Problem](), true, "Problem")}}}
	apply := reg.Schema(reflect.TypeFor[api.ApplyRequest](), true, "ApplyRequest")
	_ = reg.Schema(reflect.TypeFor[api.Change](), true, "Change") // this registers the schema of the data of an event
	for _, item := range o.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete} {
			if op == nil {
				continue
			}
			op.Responses["default"] = problem
			if op.RequestBody != nil && op.RequestBody.Content["application/yaml"] != nil {
				op.RequestBody.Content["application/yaml"].Schema = &huma.Schema{Type: huma.TypeString}
				op.RequestBody.Content["application/json"] = &huma.MediaType{Schema: apply}
			}
			said := op.Responses[strconv.Itoa(op.DefaultStatus)].Content
			for _, r := range op.Responses {
				if r.Content == nil {
					r.Content = said
				}
			}
		}
	}
	for name, schema := range reg.Map() {
		// Later versions may add fields to answers, so answers allow unknown fields. Requests stay strict, so
		// that a misspelled field is reported.
		if !strings.HasSuffix(name, "Request") && schema.AdditionalProperties == false {
			schema.AdditionalProperties = nil
		}
		for _, p := range schema.Properties {
			if p.Nullable && len(p.Enum) > 0 { // huma does not list null among the values
				p.Enum = append(p.Enum, nil)
			}
		}
	}
	orNull(reg.Map()["Schedule"].Properties, "last_fire")
	orNull(reg.Map()["Run"].Properties, "position")
	orNull(reg.Map()["Node"].Properties, "sight")
	orNull(reg.Map()["AlertRule"].Properties, "deadline")
	orNull(reg.Map()["AlertRule"].Properties, "than")
	for _, name := range []string{"Alert", "AlertDetail"} {
		orNull(reg.Map()[name].Properties, "acknowledged")
		orNull(reg.Map()[name].Properties, "resolved")
		orNull(reg.Map()[name].Properties, "silence")
	}
	delete(reg.Map(), "ErrorModel") // this model of huma is never sent
	delete(reg.Map(), "ErrorDetail")
	// An empty file is valid base64, but huma does not accept it. So huma does not see the encoding.
	data := reg.Map()["File"].Properties["data"]
	data.Extensions, data.ContentEncoding = map[string]any{"contentEncoding": data.ContentEncoding}, ""
}

// documents holds the forms of the OpenAPI document for people and programs.
type documents struct {
	openAPI []byte
	tag     string // ETag of openAPI
	page    http.Handler
}

// render makes the documents at their first request, because most nodes never show them.
func render(o *huma.OpenAPI) (*documents, error) {
	doc, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return nil, fmt.Errorf("OpenAPI document: %w", err)
	}
	page, err := docsPage(doc)
	return &documents{openAPI: doc, tag: tagOf(sha256.Sum256(doc)), page: page}, err
}

// orNull allows null for a property that is an object, which huma cannot express.
func orNull(properties map[string]*huma.Schema, name string) {
	is := properties[name]
	properties[name] = &huma.Schema{Description: is.Description, AnyOf: []*huma.Schema{{Ref: is.Ref}, {Type: "null"}}}
}
