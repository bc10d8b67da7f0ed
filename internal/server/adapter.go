package server

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"skein.dev/skein/internal/access"
)

// adapter registers huma's operations on a ServeMux. A wildcard of the mux is a whole segment of a path. So
// the routes {id}:stop, {id}:kill… share one pattern, and the adapter distinguishes them.
type adapter struct {
	*http.ServeMux
	server *Server
	verbs  map[string]map[string]func(http.ResponseWriter, *http.Request) // pattern → verb
	// bodies bounds the body of a request, by pattern. A pattern that is not in the map accepts no body.
	bodies map[string]int64
	// before puts a handler in front of the handler of an operation, by its id.
	before map[string]func(next http.HandlerFunc) http.HandlerFunc
}

func newAdapter(s *Server) *adapter {
	return &adapter{ServeMux: s.mux, server: s, verbs: map[string]map[string]func(http.ResponseWriter, *http.Request){},
		bodies: map[string]int64{}, before: map[string]func(http.HandlerFunc) http.HandlerFunc{}}
}

var verbPath = regexp.MustCompile(`^(.*)\{([a-z]+)\}:([a-z-]+)$`)

// Handle is called by huma, before the first request.
func (a *adapter) Handle(op *huma.Operation, handler func(huma.Context)) {
	serve := func(w http.ResponseWriter, r *http.Request) { handler(humago.NewContext(op, r, w)) }
	if before := a.before[op.OperationID]; before != nil {
		serve = before(serve)
	}
	serve = auditing(a.server, access.RowOf(op.Method, op.Path), op.OperationID, serve)
	serve = decided(a.server, op.Method, op.Path, serve)
	m := verbPath.FindStringSubmatch(op.Path)
	if m == nil {
		a.HandleFunc(op.Method+" "+op.Path, serve)
		a.bounds(op.Method+" "+op.Path, op)
		return
	}
	before, name, verb := m[1], m[2], m[3]
	pattern := op.Method + " " + before + "{" + name + "_verb}"
	if a.verbs[pattern] == nil {
		a.verbs[pattern] = map[string]func(http.ResponseWriter, *http.Request){}
		a.HandleFunc(pattern, a.dispatch(pattern, name))
	}
	a.verbs[pattern][verb] = serve
	a.bounds(pattern, op)
}

// bounds records the body limit of an operation. huma already refuses a body of exactly MaxBodyBytes bytes.
func (a *adapter) bounds(pattern string, op *huma.Operation) {
	if op.RequestBody != nil {
		a.bodies[pattern] = max(a.bodies[pattern], op.MaxBodyBytes-1)
	}
}

// BodyMax returns the limit of a request's body in bytes. It returns 0 if the route accepts no body or does
// not exist.
func (s *Server) BodyMax(r *http.Request) int64 {
	_, pattern := s.mux.Handler(r)
	return s.adapter.bodies[pattern]
}

func (a *adapter) dispatch(pattern, name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		object := r.PathValue(name + "_verb")
		i := strings.LastIndexByte(object, ':')
		if i < 0 {
			methodNotAllowed(r.Method, "").write(w, r)
			return
		}
		verb, known := a.verbs[pattern][object[i+1:]]
		if !known {
			notFound("there is no verb %q; there are %s", object[i+1:], names(a.verbs[pattern])).write(w, r)
			return
		}
		r.SetPathValue(name, object[:i])
		r.Pattern = strings.Replace(pattern, "_verb}", "}:"+object[i+1:], 1)
		verb(w, r)
	}
}
