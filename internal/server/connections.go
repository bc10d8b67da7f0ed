package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"skein.dev/skein/internal/connection"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// Connector uses a connection once, as a test.
type Connector interface {
	Test(ctx context.Context, namespace string, c *connection.Config) (found string, err error)
}

// connecting are the routes of connections.
type connecting struct{ s *Server }

func connectionRoutes(s *Server, connections tag) {
	n := connecting{s}
	route(s, connections.get("/connections", "list-connections", "List the connections by namespace and name"), n.list)
	route(s, connections.put("/connections/{ns}/{name}", "set-connection", "Make a connection, or change it; attempts that begin later use it"), n.set)
	route(s, connections.delete("/connections/{ns}/{name}", "delete-connection", "Remove a connection; tasks that use it fail to start"), n.delete)
	route(s, connections.verb("/connections/{ns}/{name}:test", "test-connection", "Use a connection once, from the node that answers"), n.test)
}

func (n connecting) store() (store.Connections, error) {
	if n.s.cfg.Connections == nil {
		return nil, notFound("this process has no connections; ask a node")
	}
	return n.s.cfg.Connections, nil
}

type listConnectionsIn struct {
	Page
	Namespace string `query:"namespace" maxLength:"63" doc:"Only connections of this namespace."`
}

func (n connecting) list(ctx context.Context, in *listConnectionsIn) (*jsonOut[api.List[api.Connection]], error) {
	st, err := n.store()
	if err != nil {
		return nil, err
	}
	text, err := in.after()
	if err != nil {
		return nil, err
	}
	ns, name, ok := strings.Cut(text, "/")
	if text != "" && !ok || in.Namespace != "" && text != "" && ns != in.Namespace {
		return nil, badCursor()
	}
	if text == "" {
		ns = in.Namespace
	}
	all, err := st.ConnectionList(ctx, ns, name, in.Limit+1)
	if err != nil {
		return nil, unread(err)
	}
	items := []api.Connection{}
	for i := range all {
		c := &all[i]
		if in.Namespace != "" && c.Namespace != in.Namespace {
			break
		}
		if len(items) == in.Limit {
			last := &items[len(items)-1]
			return list(items, last.Namespace+"/"+last.Name), nil
		}
		items = append(items, connectionShown(c))
	}
	return list(items, ""), nil
}

func connectionShown(c *store.Connection) api.Connection {
	out := api.Connection{Namespace: c.Namespace, Name: c.Name, Config: json.RawMessage(c.Data), Version: c.Version, User: c.By,
		CreatedAt: instant(c.Created), ModifiedAt: instant(c.Modified)}
	if is, err := connection.Parse(c.Data); err == nil {
		out.Type = is.Type()
	}
	return out
}

type ConnectionPath struct {
	Namespace string `path:"ns" maxLength:"63"`
	Name      string `path:"name" maxLength:"100"`
}

type setConnectionIn struct {
	ConnectionPath
	Versioned
	Body api.ConnectionRequest
}

func (n connecting) set(ctx context.Context, in *setConnectionIn) (*jsonOut[api.Connection], error) {
	st, err := n.store()
	switch {
	case err != nil:
		return nil, err
	case !namespaceOK.MatchString(in.Namespace):
		return nil, invalidField("namespace", fmt.Sprintf("%.63q cannot be the name of a namespace", in.Namespace))
	case !connection.IsName(in.Name):
		return nil, invalidField("name", fmt.Sprintf("%.100q cannot be the name of a connection: it is 1 to 100 of A-Z a-z 0-9 _ . -, and begins with none of . -", in.Name))
	}
	data, err := json.Marshal(in.Body.Config)
	if err != nil {
		return nil, err
	}
	is, err := connection.Parse(data)
	if err == nil {
		// stored in the canonical form, which can be longer than the text that was sent
		if data, err = json.Marshal(&is); err == nil {
			_, err = connection.Parse(data)
		}
	}
	if err != nil {
		return nil, invalidConfig("connection "+fullName(in.Namespace, in.Name), is, err)
	}
	for range setTries {
		was, err := st.ConnectionOf(ctx, in.Namespace, in.Name)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, unread(err)
		}
		if err := in.met(was.Version, "connection "+fullName(in.Namespace, in.Name)); err != nil {
			return nil, err
		}
		c, err := st.PutConnection(ctx, store.Connection{Namespace: in.Namespace, Name: in.Name, Version: was.Version + 1, Data: data, By: userOf(ctx)})
		switch {
		case err == nil:
			return &jsonOut[api.Connection]{Body: connectionShown(&c)}, nil
		case errors.Is(err, store.ErrRefused):
			return nil, fmt.Errorf("%w: there are already %d connections, the limit; delete one", errkind.ErrConflict, store.ConnectionsMax)
		case !errors.Is(err, store.ErrFenced):
			return nil, unread(err)
		}
	}
	return nil, fmt.Errorf("%w: connection %s/%s was changed at the same time; try again", errkind.ErrConflict, in.Namespace, in.Name)
}

func (n connecting) delete(ctx context.Context, in *ConnectionPath) (*struct{}, error) {
	st, err := n.store()
	if err != nil {
		return nil, err
	}
	err = st.DropConnection(ctx, in.Namespace, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("there is no connection %s/%s", in.Namespace, in.Name)
	}
	return nil, unread(err)
}

func (n connecting) test(ctx context.Context, in *ConnectionPath) (*jsonOut[api.ConnectionTest], error) {
	st, err := n.store()
	if err != nil {
		return nil, err
	}
	if n.s.cfg.Connector == nil {
		return nil, notFound("this process only reads the database, so it cannot test connections; send the call to a node")
	}
	row, err := st.ConnectionOf(ctx, in.Namespace, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("there is no connection %s/%s", in.Namespace, in.Name)
	}
	if err != nil {
		return nil, unread(err)
	}
	if err := recordAudit(ctx, n.s); err != nil {
		return nil, err
	}
	out := &jsonOut[api.ConnectionTest]{}
	c, err := connection.Parse(row.Data)
	found := ""
	if err == nil {
		found, err = n.s.cfg.Connector.Test(ctx, in.Namespace, &c)
	}
	if err != nil {
		why := err.Error()
		out.Body.Error = &why
		return out, nil
	}
	out.Body.OK, out.Body.Found = true, &found
	return out, nil
}
