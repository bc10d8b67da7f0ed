package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"skein.dev/skein/internal/blob"
	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/extension"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
)

// Means are the parts of the node that sources use.
type Means struct {
	Workflow   func(ctx context.Context, w dag.WorkflowID) (namespace, name string, err error)
	Connection func(ctx context.Context, namespace, name string) (config []byte, err error)
	Secret     func(ctx context.Context, namespace, name string) (string, error)
	// Rules returns the rules of egress for a namespace.
	Rules egress.RulesFor
	// Protected are files and folders of the node, which no source lists.
	Protected []string
	Shared    *Shared
	// Version is the version of this program. Plus returns the command that runs a client of a broker.
	Version    string
	Plus       func() (argv []string, err error)
	Extensions *extension.Book
	// Memory is the number of bytes that the process of a source may take. 0 means any number.
	Memory int64
}

// Stored returns a function for Config.Cursor. The function calls the planner, which reads the rows.
func Stored(p interface {
	Position(t *store.Trigger) (engine.Position, error)
},
) func(t *store.Trigger) (cursor []byte, start Start, err error) {
	return func(t *store.Trigger) ([]byte, Start, error) {
		pos, err := p.Position(t)
		return pos.Cursor, Start{Beginning: pos.From == workflow.FromBeginning, Since: pos.Since.Time()}, err
	}
}

// Name returns the name of a workflow. It returns "" if the workflow cannot be read.
func (m *Means) Name(ctx context.Context, w dag.WorkflowID) string {
	namespace, name, err := m.Workflow(ctx, w)
	if err != nil {
		return ""
	}
	return namespace + "/" + name
}

// Open makes the source of a trigger. The source reads connections and secrets when it uses them.
func (m *Means) Open(ctx context.Context, t *store.Trigger, decl *workflow.Trigger, start Start) (Source, error) {
	namespace, name, err := m.Workflow(ctx, t.Workflow)
	if err != nil {
		return nil, fmt.Errorf("the workflow cannot be read: %w", err)
	}
	switch {
	case decl.Poll != nil:
		return m.poll(namespace, decl.Poll, start), nil
	case decl.Query != nil:
		return m.query(namespace, decl.Query, start), nil
	case decl.Object != nil:
		return m.objects(ctx, namespace, decl.Object, start)
	case decl.Outside != nil:
		return m.outside(namespace, name, decl, start), nil
	}
	return nil, fmt.Errorf("this node does not know sources of the kind %s", decl.Kind)
}

// connection reads a connection.
func (m *Means) connection(ctx context.Context, namespace, name string) (connection.Config, error) {
	data, err := m.Connection(ctx, namespace, name)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, errkind.ErrNotFound):
		return connection.Config{}, fmt.Errorf("there is no connection %s/%s: create it with: skein connection set %s/%s", namespace, name, namespace, name)
	case err != nil:
		return connection.Config{}, fmt.Errorf("the connection %s/%s cannot be read: %w", namespace, name, err)
	}
	c, err := connection.Parse(data)
	if err != nil {
		return c, fmt.Errorf("connection %s/%s: %w", namespace, name, err)
	}
	return c, nil
}

func otherType(namespace, name, is, want string) error {
	return fmt.Errorf("connection %s/%s has the type %s, and this source needs one of the type %s", namespace, name, is, want)
}

func (m *Means) poll(namespace string, p *workflow.Poll, start Start) Source {
	request := func(ctx context.Context) (string, []connection.Header, error) {
		if p.Connection == "" {
			return p.URL, nil, nil
		}
		c, err := m.connection(ctx, namespace, p.Connection)
		if err != nil {
			return "", nil, err
		}
		if c.HTTP == nil {
			return "", nil, otherType(namespace, p.Connection, c.Type(), "http")
		}
		return c.HTTP.Request(p.URL, func(name string) (string, error) { return m.Secret(ctx, namespace, name) })
	}
	transport := func(ctx context.Context) (http.RoundTripper, error) { return m.Rules.Transport(ctx, namespace) }
	return &Poll{Config: p, Start: start, Request: request, Transport: transport, Shared: m.Shared}
}

func (m *Means) query(namespace string, q *workflow.Query, start Start) Source {
	database := func(ctx context.Context) (c connection.Config, password string, err error) {
		if c, err = m.connection(ctx, namespace, q.Connection); err != nil {
			return c, "", err
		}
		of := ""
		switch {
		case c.Postgres != nil:
			if c.Postgres.Password != nil {
				of = c.Postgres.Password.Secret
			}
		case c.MySQL != nil && q.Listen != "":
			return c, "", fmt.Errorf("connection %s/%s is of MySQL, which sends no notices: remove the key listen", namespace, q.Connection)
		case c.MySQL != nil:
			if c.MySQL.Password != nil {
				of = c.MySQL.Password.Secret
			}
		default:
			return c, "", otherType(namespace, q.Connection, c.Type(), "postgres or mysql")
		}
		if of == "" {
			return c, "", nil
		}
		password, err = m.Secret(ctx, namespace, of)
		return c, password, err
	}
	is := &Query{Config: q, Start: start}
	is.Open = func(ctx context.Context) (Table, error) {
		c, password, err := database(ctx)
		if err != nil {
			return nil, err
		}
		return follow(ctx, &c, password, m.Rules.Dialer(namespace), q)
	}
	is.Listen = func(ctx context.Context, wake func()) error {
		c, password, err := database(ctx)
		if err != nil {
			return err
		}
		return c.Postgres.Listen(ctx, password, m.Rules.Dialer(namespace), q.Listen, wake)
	}
	return is
}

// follow opens a session that reads the rows of a query, in PostgreSQL or MySQL.
func follow(ctx context.Context, c *connection.Config, password string, dial connection.Dial, q *workflow.Query) (Table, error) {
	if c.MySQL != nil {
		f, err := c.MySQL.Follow(ctx, password, dial, q.Statement("?"), q.Places(), q.Cursor)
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	f, err := c.Postgres.Follow(ctx, password, dial, q.Statement("$1"), q.Cursor)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Means) objects(ctx context.Context, namespace string, o *workflow.Objects, start Start) (Source, error) {
	is := &Objects{Config: o, Start: start}
	if u, err := url.Parse(o.URL); err == nil && u.Scheme == "file" {
		is.In = &Folder{Path: u.Path, Protected: m.Protected, Ordered: o.Ordered}
		return is, nil
	}
	at, err := blob.ParseLocation(o.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	if strings.Contains(o.Secret, "/") || o.Secret == "" || at.Secret != "" { // a trigger uses neither the node's credentials nor those of other namespaces
		return nil, errors.New("the secret must be the name of a secret of the namespace")
	}
	at.Secret = namespace + "/" + o.Secret
	rules, err := m.Rules(ctx, namespace)
	if err != nil {
		return nil, err
	}
	bucket, err := blob.Open(&at, blob.Options{Egress: &rules, Secret: func(ctx context.Context, namespace, name string) ([]byte, error) {
		value, err := m.Secret(ctx, namespace, name)
		return []byte(value), err
	}})
	if err != nil {
		return nil, err
	}
	is.In = Bucket{bucket}
	return is, nil
}
