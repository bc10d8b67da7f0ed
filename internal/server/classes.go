package server

import (
	"context"
	"errors"
	"fmt"
	"math"

	"skein.dev/skein/internal/access"
	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func (s *Server) classRoutes(classes tag) {
	route(s, classes.get("/classes", "list-classes", "List the resource classes: those of all namespaces, and those of namespaces"), s.listClasses)
	route(s, classes.put("/classes/{name}", "set-class", "Make a resource class, or change it for workflows that are applied later"), func(ctx context.Context, in *setClassIn) (*jsonOut[api.Class], error) {
		return s.putClass(ctx, "", in.Name, &in.Body)
	})
	route(s, classes.delete("/classes/{name}", "delete-class", "Remove a resource class; applied workflows keep its numbers"), func(ctx context.Context, in *ClassPath) (*struct{}, error) {
		return nil, s.dropClass(ctx, "", in.Name)
	})
	route(s, classes.put("/classes/{ns}/{name}", "set-own-class", "Make a resource class of a namespace, or change it for workflows that are applied later"), func(ctx context.Context, in *setOwnClassIn) (*jsonOut[api.Class], error) {
		if !namespaceOK.MatchString(in.Namespace) {
			return nil, invalid("%.63q cannot be the name of a namespace", in.Namespace)
		}
		return s.putClass(ctx, in.Namespace, in.Name, &in.Body)
	})
	route(s, classes.delete("/classes/{ns}/{name}", "delete-own-class", "Remove a resource class of a namespace; applied workflows keep its numbers"), func(ctx context.Context, in *OwnPath) (*struct{}, error) {
		return nil, s.dropClass(ctx, in.Namespace, in.Name)
	})
}

// unreadClasses returns the error when the resource classes cannot be read now.
func unreadClasses(err error) error { return unread(fmt.Errorf("read the resource classes: %w", err)) }

func (s *Server) listClasses(ctx context.Context, _ *struct{}) (*jsonOut[api.List[api.Class]], error) {
	own, err := s.cfg.Classes.ClassList(ctx)
	if err != nil {
		return nil, unreadClasses(err)
	}
	var all []api.Class
	for _, c := range workflow.BuiltinClasses() {
		all = append(all, api.Class{Name: c.Name, CPU: cores(c.Need.CPU), Memory: c.Need.Memory, Builtin: true})
	}
	for i := range own {
		if seesName(ctx, access.ClassRead, own[i].Name) {
			all = append(all, classOf(&own[i]))
		}
	}
	return list(all, ""), nil
}

func cores(milli int64) float64 { return float64(milli) / 1000 }

type ClassPath struct {
	Name string `path:"name" maxLength:"100"`
}

type setClassIn struct {
	ClassPath
	Body api.ClassRequest
}

type setOwnClassIn struct {
	OwnPath
	Body api.ClassRequest
}

// putClass makes or changes a class of a namespace, or one that all namespaces share ("").
func (s *Server) putClass(ctx context.Context, namespace, name string, to *api.ClassRequest) (*jsonOut[api.Class], error) {
	c := store.Class{Name: dag.OwnName(namespace, name), User: userOf(ctx), Need: dag.Need{CPU: int64(math.Round(to.CPU * 1000)), Memory: to.Memory}}
	switch {
	case !workflow.IsClassName(name):
		return nil, invalid("%.60q cannot be the name of a resource class: a name has 1 to 63 of a-z 0-9 -, begins with a letter, and is not basic, regular or premium, which are built in", name)
	case c.Need == dag.Need{}:
		return nil, invalid("resource class %s has no resources: give it cpu (at least 0.001) or memory", name)
	case namespace != "" && !engine.NamespacesOf(s.engine).NamesStand():
		return nil, fmt.Errorf("%w: a node of an earlier version is a member, and knows no classes of namespaces: upgrade all nodes first", errkind.ErrConflict)
	}
	if err := classesFull(ctx, s, namespace, c.Name); err != nil {
		return nil, err
	}
	c, err := s.cfg.Classes.PutClass(ctx, c)
	switch {
	case errors.Is(err, store.ErrRefused):
		return nil, fmt.Errorf("%w: there are already %d resource classes, the limit; delete one", errkind.ErrConflict, store.ClassesMax)
	case err != nil:
		return nil, unread(err)
	}
	return &jsonOut[api.Class]{Body: classOf(&c)}, nil
}

// classesOwnMax bounds the resource classes of a namespace, so that its administrators cannot use up
// store.ClassesMax.
const classesOwnMax = 50

// classesFull returns an error if a namespace may not have one more class. Calls at the same time may exceed
// the bound a little.
func classesFull(ctx context.Context, s *Server, namespace, stored string) error {
	if namespace == "" {
		return nil
	}
	all, err := s.cfg.Classes.ClassList(ctx)
	if err != nil {
		return unread(err)
	}
	n := 0
	for i := range all {
		if of, _ := dag.CutName(all[i].Name); all[i].Name == stored {
			return nil
		} else if of == namespace {
			n++
		}
	}
	if n >= classesOwnMax {
		return fmt.Errorf("%w: namespace %s has %d resource classes, the limit; delete one", errkind.ErrConflict, namespace, classesOwnMax)
	}
	return nil
}

func (s *Server) dropClass(ctx context.Context, namespace, name string) error {
	missing := notFound("there is no resource class %.60q that you can change; basic, regular and premium are built in", name)
	if of, _ := dag.CutName(name); of != "" {
		return missing
	}
	err := s.cfg.Classes.DropClass(ctx, dag.OwnName(namespace, name))
	if errors.Is(err, store.ErrNotFound) {
		return missing
	}
	return unread(err)
}

func classOf(c *store.Class) api.Class {
	namespace, _ := dag.CutName(c.Name)
	return api.Class{Name: c.Name, Namespace: textOrNull(namespace), CPU: cores(c.Need.CPU), Memory: c.Need.Memory, User: textOrNull(c.User),
		CreatedAt: instantOrNull(c.Created), ModifiedAt: instantOrNull(c.Modified)}
}
