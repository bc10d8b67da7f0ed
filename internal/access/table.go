package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Of says how the object of a call is found. So it determines in which namespace the caller needs the verb.
type Of uint8

// The kinds of objects. The zero Of is no kind, and no row has it.
const (
	_           Of = iota
	OfPublic       // there is no object; the row says why every caller may make the call
	OfSelf         // the caller
	OfList         // the namespace of each item: a list shows the items that the caller may see
	OfRun          // the run in the path, in the namespace of its workflow
	OfWorkflow     // the workflow in the path
	OfSchedule     // the trigger in the path
	OfAlert        // the alert in the path, in its namespace
	OfBackfill     // the backfill in the path, in the namespace of its workflow
	OfBody         // the object that the body names
	OfMany         // each run that the body names or its filter finds
	OfNamespace    // the namespace in the path
	OfShared       // shared queues, locks and classes: a read needs the verb in any namespace, a change in all
	OfCluster      // the cluster
	OfWorker       // the worker that calls
	OfNode         // the node that calls
	ofEnd
)

var ofNames = [ofEnd]string{"none", "public", "self", "list", "run", "workflow", "schedule", "alert", "backfill", "body", "many", "namespace", "shared",
	"cluster", "worker", "node"}

// String returns the name of the kind of object.
func (o Of) String() string {
	if o >= ofEnd {
		return ofNames[0]
	}
	return ofNames[o]
}

// MarshalText writes the name of the kind of object.
func (o Of) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Row is the verb and the object of one route.
type Row struct {
	Method string `json:"method"`
	Path   string `json:"path"` // path as in the OpenAPI document
	Verb   Verb   `json:"verb"`
	Of     Of     `json:"object"`
	// Because says why a route is public.
	Because string `json:"because,omitempty"`
}

// Table returns every route of every listener.
func Table() []Row { return slices.Clone(rows) }

// routes finds rows by the paths of the table and by requests.
var routes = index(rows)

type table struct {
	mux   *http.ServeMux
	named map[string]*Row            // method and path → row
	exact map[string]*Row            // pattern of the mux → row
	verbs map[string]map[string]*Row // pattern of the mux → verb in the last segment → row
}

// verbPath is a path that ends with a name, a colon and a verb. The patterns of the mux cannot express this.
var verbPath = regexp.MustCompile(`^(.*)\{([a-z]+)\}:([a-z-]+)$`)

func index(rows []Row) *table {
	t := &table{mux: http.NewServeMux(), named: map[string]*Row{}, exact: map[string]*Row{}, verbs: map[string]map[string]*Row{}}
	none := http.NotFoundHandler()
	for i := range rows {
		r := &rows[i]
		t.named[r.Method+" "+r.Path] = r
		m := verbPath.FindStringSubmatch(r.Path)
		switch {
		case m != nil:
			pattern := r.Method + " " + m[1] + "{" + m[2] + "_verb}"
			if t.verbs[pattern] == nil {
				t.verbs[pattern] = map[string]*Row{}
				t.mux.Handle(pattern, none)
			}
			t.verbs[pattern][m[3]] = r
		case strings.HasSuffix(r.Path, "/"):
			t.exact[r.Method+" "+r.Path+"{$}"] = r
			t.mux.Handle(r.Method+" "+r.Path+"{$}", none)
		default:
			t.exact[r.Method+" "+r.Path] = r
			t.mux.Handle(r.Method+" "+r.Path, none)
		}
	}
	return t
}

// RowOf returns the row of a route. For a route without a row it returns the zero Row, which denies every
// call.
func RowOf(method, path string) Row {
	if row := routes.named[method+" "+path]; row != nil {
		return *row
	}
	return Row{}
}

// unknown is the row of requests that match no route. A known caller learns that there is no such route. Any
// other caller learns nothing.
var unknown = Row{Verb: Self, Of: OfSelf}

// anyPage is the row of all addresses of the web page.
const anyPage = "/{path...}"

// Reserved reports whether a path belongs to the API or the other interfaces, so that it cannot be an address
// of the web page.
func Reserved(path string) bool {
	switch path {
	case "/livez", "/readyz", "/version", "/metrics", "/api":
		return true
	}
	return strings.HasPrefix(path, "/api/") || strings.HasPrefix(path, "/auth/") || strings.HasPrefix(path, "/internal/") || strings.HasPrefix(path, "/skein.worker.")
}

// Match finds the row of a request, by the same pattern that net/http uses for its method and path. If there
// is no row, ok is false. The returned row then allows a known caller to learn that the route does not exist.
func Match(r *http.Request) (row Row, ok bool) {
	_, pattern := routes.mux.Handler(r)
	found := routes.exact[pattern]
	if verbs := routes.verbs[pattern]; verbs != nil {
		path := r.URL.EscapedPath()
		last, err := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
		if i := strings.LastIndexByte(last, ':'); err == nil && i >= 0 {
			found = verbs[last[i+1:]]
		}
	}
	if found == nil || found.Path == anyPage && Reserved(r.URL.Path) {
		return unknown, false
	}
	return *found, true
}

// Routes notes which routes of the table have a handler. It is used while handlers are registered.
type Routes struct {
	taken  map[string]bool
	faults []error
}

// Take returns the row of a route whose handler is registered now. Err later reports a route without a row,
// or with a second handler.
func (t *Routes) Take(method, path string) Row {
	name := method + " " + path
	row := routes.named[name]
	switch {
	case row == nil:
		t.faults = append(t.faults, fmt.Errorf("the route %s has no row in the table of access; add one to internal/access/rows.go", name))
		return Row{}
	case t.taken[name]:
		t.faults = append(t.faults, fmt.Errorf("the route %s has two handlers", name))
	case t.taken == nil:
		t.taken = map[string]bool{}
	}
	t.taken[name] = true
	return *row
}

// Err reports each route that was registered without a row, and each row without a handler. It checks only
// the rows that part selects.
func (t *Routes) Err(part func(Of) bool) error {
	faults := slices.Clone(t.faults)
	for i := range rows {
		if name := rows[i].Method + " " + rows[i].Path; part(rows[i].Of) && !t.taken[name] {
			faults = append(faults, fmt.Errorf("the table of access has a row for %s, which has no handler", name))
		}
	}
	return errors.Join(faults...)
}

// Mux is a mux whose routes must all be in the table.
type Mux struct {
	http.ServeMux
	*Routes
}

// NewMux makes a mux without routes.
func NewMux() *Mux { return &Mux{Routes: &Routes{}} }

// HandleFunc registers a handler for a method and a path.
func (m *Mux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	method, path, _ := strings.Cut(pattern, " ")
	m.Take(method, path)
	m.ServeMux.HandleFunc(pattern, h)
}
