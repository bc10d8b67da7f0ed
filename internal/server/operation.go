package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"skein.dev/skein/internal/auth"
	"skein.dev/skein/internal/store"
)

// The compiler makes a copy of huma.Register for each pair of an input and an output. The copies for all
// routes took 4 MB of the program. So each route registers one of the inputs and outputs below. This file
// fills the input of the route's handler and sends its output, with the schemas and checks of huma.

// plainIn is the input of each operation without a body.
type plainIn struct{ call }

// bodyIn is the input of each operation with a body. huma has read it and, if it is JSON, checked it.
type bodyIn struct {
	call
	RawBody []byte `contentType:"application/octet-stream"`
}

// anyOut is the output of each operation that does not stream.
type anyOut struct {
	Status int
	Body   any
}

// call is a request whose parameters have been read.
type call struct {
	hc huma.Context
	in reflect.Value // a pointer to the input of the handler
	// nothing says that a text of the path is not UTF-8 or has a NUL character, so that it cannot name an object.
	nothing bool
}

// operation describes a handler: where its input comes from, and where its output goes.
type operation struct {
	huma.Operation
	schemas    huma.Registry
	in         reflect.Type
	params     []param
	body, raw  []int // the fields Body and RawBody of the input; nil if there is no such field
	required   bool  // a request must have a body
	headers    []header
	status     int // the fields Status and Body of the output; -1 if there is no such field
	answer     int
	answerType reflect.Type
	handle     func(ctx context.Context, in any) (any, error)
}

// param is a parameter of a request.
type param struct {
	field                  []int
	place, name, otherwise string
	required, every        bool // every says that the parameter may be repeated
	bare                   bool // a name without a value means true; a text without a value is absent, as for access
	schema                 *huma.Schema
}

// header is a header of an answer.
type header struct {
	field int
	name  string
}

const operationKey = "operation"

// route registers an operation. Every error of its handler becomes a problem.
func route[I, O any](s *Server, op huma.Operation, h func(context.Context, *I) (*O, error)) {
	register(s, op, [2]reflect.Type{reflect.TypeFor[I](), reflect.TypeFor[O]()}, func(ctx context.Context, in any) (any, error) {
		out, err := h(ctx, in.(*I))
		if out == nil || err != nil {
			return nil, err
		}
		return out, nil
	})
}

// register registers an operation, whose types are those of its input and its output.
func register(s *Server, op huma.Operation, types [2]reflect.Type, handle func(context.Context, any) (any, error)) {
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = jsonBytesMax + 1 // huma refuses a body of exactly this length
	}
	op.BodyReadTimeout = auth.BodyTime(op.MaxBodyBytes)
	op.Extensions = map[string]any{"x-skein-verb": s.access.Take(op.Method, op.Path).Verb.String()}
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	o := &operation{Operation: op, schemas: s.api.OpenAPI().Components.Schemas, in: types[0], handle: handle}
	o.Metadata = map[string]any{operationKey: o}
	o.input()
	o.output(types[1])
	// huma does not know the parameters of the input.
	registered := o.Operation
	if registered.RejectUnknownQueryParameters {
		registered.RejectUnknownQueryParameters = false
		registered.Middlewares = huma.Middlewares{o.known(s.api)}
	}
	switch streams := o.answerType == reflect.TypeFor[func(huma.Context)](); {
	case streams && o.RequestBody != nil:
		panic(op.OperationID + ": an operation with a body cannot stream")
	case streams:
		huma.Register(s.api, registered, func(ctx context.Context, in *plainIn) (*streamOut, error) {
			out, err := o.serve(ctx, in.call, nil)
			if err != nil {
				return nil, err
			}
			return out.(*streamOut), nil
		})
	case o.RequestBody == nil:
		huma.Register(s.api, registered, func(ctx context.Context, in *plainIn) (*anyOut, error) {
			out, err := o.serve(ctx, in.call, nil)
			return o.send(in.hc, out), err
		})
	default:
		huma.Register(s.api, registered, func(ctx context.Context, in *bodyIn) (*anyOut, error) {
			out, err := o.serve(ctx, in.call, in.RawBody)
			return o.send(in.hc, out), err
		})
	}
	o.correct()
}

// correct removes from the document what is true only of the inputs and outputs that huma knows.
func (o *operation) correct() {
	const unknown = "application/octet-stream"
	if o.body != nil {
		delete(o.RequestBody.Content, unknown)
		o.RequestBody.Required = o.required
	}
	if o.raw != nil {
		kind := o.in.FieldByIndex(o.raw).Tag.Get("contentType")
		said := o.RequestBody.Content[unknown]
		delete(o.RequestBody.Content, unknown)
		o.RequestBody.Content[kind] = said
	}
	if o.answer < 0 {
		o.Responses[strconv.Itoa(o.DefaultStatus)].Content = nil
	}
}

// input reads the tags of the input, and documents its parameters and its body.
func (o *operation) input() {
	o.parameters(o.in, nil)
	if f, ok := o.in.FieldByName("RawBody"); ok {
		o.raw = f.Index
	}
	f, ok := o.in.FieldByName("Body")
	if ok {
		o.body, o.required = f.Index, f.Type.Kind() != reflect.Pointer
	}
	if o.RequestBody == nil && (ok || o.raw != nil) {
		o.RequestBody = &huma.RequestBody{}
	}
	if ok {
		o.RequestBody.Content = map[string]*huma.MediaType{"application/json": {Schema: huma.SchemaFromField(o.schemas, f, o.in.Name()+f.Name)}}
	}
}

func (o *operation) parameters(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f, field := t.Field(i), append(at[:len(at):len(at)], i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			o.parameters(f.Type, field)
			continue
		}
		p := param{field: field, otherwise: f.Tag.Get("default"), required: f.Tag.Get("required") == "true"}
		for _, place := range []string{"path", "query", "header"} {
			if name, more, _ := strings.Cut(f.Tag.Get(place), ","); name != "" {
				p.place, p.name, p.every = place, name, more == "explode"
				p.required = p.required || place == "path"
			}
		}
		if p.place == "" || !f.IsExported() || f.Name == "Body" {
			continue
		}
		p.bare = f.Type.Kind() != reflect.String && f.Type.Kind() != reflect.Slice
		p.schema = huma.SchemaFromField(o.schemas, f, "")
		o.params = append(o.params, p)
		if f.Tag.Get("hidden") != "true" {
			o.Parameters = append(o.Parameters, p.document())
		}
	}
}

func (p *param) document() *huma.Param {
	is := &huma.Param{Name: p.name, In: p.place, Description: p.schema.Description, Required: p.required, Schema: p.schema}
	if p.place == "query" {
		is.Explode = &p.every
	}
	return is
}

// output reads the tags of the output, and documents its headers and its body.
func (o *operation) output(out reflect.Type) {
	o.status, o.answer = -1, -1
	for i := range out.NumField() {
		switch f := out.Field(i); f.Name {
		case "Status":
			o.status = i
		case "Body":
			o.answer, o.answerType = i, f.Type
		default:
			o.headers = append(o.headers, header{i, f.Tag.Get("header")})
		}
	}
	if o.DefaultStatus == 0 {
		o.DefaultStatus = http.StatusOK
		if o.answer < 0 {
			o.DefaultStatus = http.StatusNoContent
		}
	}
	status := strconv.Itoa(o.DefaultStatus)
	if o.Responses[status] == nil {
		o.Responses[status] = &huma.Response{}
	}
	said := o.Responses[status]
	if o.answer >= 0 && len(said.Content) == 0 {
		said.Content = map[string]*huma.MediaType{"application/json": {Schema: huma.SchemaFromField(o.schemas, out.Field(o.answer), out.Name()+"Body")}}
	}
	said.Headers = map[string]*huma.Header{}
	for _, h := range o.headers {
		if f := out.Field(h.field); f.Tag.Get("hidden") != "true" {
			said.Headers[h.name] = &huma.Header{Schema: huma.SchemaFromField(o.schemas, f, out.Name()+f.Name)}
		}
	}
}

// known returns a function that refuses unknown parameters before huma reads the body.
func (o *operation) known(of huma.API) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		if u := hc.URL(); u.RawQuery != "" {
			res, path := &huma.ValidateResult{}, huma.NewPathBuffer(nil, 0)
			for name := range u.Query() {
				if !o.takes(name) {
					path.Reset()
					path.Push("query")
					path.Push(name)
					res.Add(path, "", "unknown query parameter")
				}
			}
			if len(res.Errors) > 0 {
				_ = huma.WriteErr(of, hc, http.StatusUnprocessableEntity, "validation failed", res.Errors...)
				return
			}
		}
		next(hc)
	}
}

// Resolve implements huma.Resolver. It reads the parameters of a request, after huma has read the body.
func (c *call) Resolve(hc huma.Context) []error {
	o := hc.Operation().Metadata[operationKey].(*operation)
	*c = call{hc: hc, in: reflect.New(o.in)}
	res, path := &huma.ValidateResult{}, huma.NewPathBuffer(nil, 0)
	u := hc.URL()
	var query url.Values
	if u.RawQuery != "" {
		query = u.Query()
	}
	for i := range o.params {
		p := &o.params[i]
		path.Reset()
		path.Push(p.place)
		path.Push(p.name)
		text := p.of(hc, query)
		if text == "" {
			if p.required {
				res.Add(path, "", "required "+p.place+" parameter is missing")
			}
			continue
		}
		c.nothing = c.nothing || p.place == "path" && (!utf8.ValidString(text) || strings.ContainsRune(text, 0))
		value, err := p.set(c.in.Elem().FieldByIndex(p.field), text, query)
		if err != nil {
			res.Add(path, text, err.Error())
			continue
		}
		huma.Validate(o.schemas, p.schema, path, huma.ModeWriteToServer, value, res)
	}
	if r, ok := c.in.Interface().(huma.Resolver); ok {
		res.Errors = append(res.Errors, r.Resolve(hc)...)
	}
	return res.Errors
}

// takes reports whether the operation has a query parameter of this name.
func (o *operation) takes(name string) bool {
	for i := range o.params {
		if o.params[i].place == "query" && o.params[i].name == name {
			return true
		}
	}
	return false
}

// of returns the text of a parameter, or its default.
func (p *param) of(hc huma.Context, query url.Values) string {
	text := ""
	switch p.place {
	case "path":
		text = hc.Param(p.name)
	case "query":
		text = query.Get(p.name)
		if u := hc.URL(); text == "" && p.bare && isBare(u.RawQuery, p.name) {
			text = "true"
		}
	case "header":
		text = hc.Header(p.name)
	}
	if text == "" {
		return p.otherwise
	}
	return text
}

// isBare reports whether a query has a name without an equals sign.
func isBare(query, name string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		key, _, valued := strings.Cut(pair, "=")
		if key, _ = url.QueryUnescape(key); key == name {
			return !valued
		}
	}
	return false
}

// set stores the value of a parameter in its field, and returns it in the form that huma.Validate takes.
func (p *param) set(field reflect.Value, text string, query url.Values) (any, error) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
		return text, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		field.SetInt(n)
		return n, nil
	case reflect.Bool:
		is, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("invalid boolean")
		}
		field.SetBool(is)
		return is, nil
	default: // a list of texts
		all := strings.Split(text, ",")
		if p.every {
			all = query[p.name]
		}
		field.Set(reflect.ValueOf(all))
		return all, nil
	}
}

// serve calls the handler with the input of a request. It returns a pointer to the handler's output, or nil.
func (o *operation) serve(ctx context.Context, c call, body []byte) (any, error) {
	// The body has been read. The deadline for reading it would end a request that waits for a run.
	if rec, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		_ = http.NewResponseController(rec).SetReadDeadline(time.Time{}) // a call within this process has no connection
	}
	if c.nothing { // the store would refuse the text
		return nil, failed(notFound("the path has a text that is not UTF-8 or has a NUL character, and no name is such a text"))
	}
	in := c.in.Elem()
	if o.raw != nil {
		in.FieldByIndex(o.raw).SetBytes(body)
	} else if len(body) > 0 {
		if err := unmarshal(body, in.FieldByIndex(o.body).Addr().Interface()); err != nil {
			return nil, huma.NewError(http.StatusUnprocessableEntity, "validation failed",
				&huma.ErrorDetail{Location: "body", Message: err.Error(), Value: string(body)})
		}
	}
	// readMax bounds each read of the store. Streams in the body of an answer use the context of the
	// request, which has no deadline.
	out, err := o.handle(store.Within(ctx, readMax), c.in.Interface())
	if err != nil {
		return nil, failed(err)
	}
	return out, nil
}

// send sets the headers of an answer, and returns its status and body for huma.
func (o *operation) send(hc huma.Context, out any) *anyOut {
	if out == nil {
		return nil
	}
	is := reflect.ValueOf(out).Elem()
	for _, h := range o.headers {
		if text := is.Field(h.field).String(); text != "" {
			hc.SetHeader(h.name, text)
		}
	}
	if o.answer < 0 {
		return nil
	}
	status := o.DefaultStatus
	if o.status >= 0 {
		status = int(is.Field(o.status).Int())
	}
	return &anyOut{status, is.Field(o.answer).Interface()}
}
