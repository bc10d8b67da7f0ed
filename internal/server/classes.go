package server

import (
	"context"
	"errors"
	"fmt"
	"math"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/workflow"
	api "skein.dev/skein/sdk/api/v1"
)

func (s *Server) classRoutes(classes tag) {
	route(s, classes.get("/classes", "list-classes", "List the resource classes"), s.listClasses)
	route(s, classes.put("/classes/{name}", "set-class", "Make a resource class, or change it for workflows that are applied later"), s.setClass)
	route(s, classes.delete("/classes/{name}", "delete-class", "Remove a resource class; applied workflows keep its numbers"), s.deleteClass)
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
		all = append(all, classOf(&own[i]))
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

func (s *Server) setClass(ctx context.Context, in *setClassIn) (*jsonOut[api.Class], error) {
	c := store.Class{Name: in.Name, User: userOf(ctx), Need: dag.Need{CPU: int64(math.Round(in.Body.CPU * 1000)), Memory: in.Body.Memory}}
	switch {
	case !workflow.IsClassName(c.Name):
		return nil, invalid("%.60q cannot be the name of a resource class: a name has 1 to 63 of a-z 0-9 -, begins with a letter, and is not basic, regular or premium, which are built in", c.Name)
	case c.Need == dag.Need{}:
		return nil, invalid("resource class %s has no resources: give it cpu (at least 0.001) or memory", c.Name)
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

func (s *Server) deleteClass(ctx context.Context, in *ClassPath) (*struct{}, error) {
	err := s.cfg.Classes.DropClass(ctx, in.Name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("there is no resource class %.60q that you can change; basic, regular and premium are built in", in.Name)
	}
	return nil, unread(err)
}

func classOf(c *store.Class) api.Class {
	return api.Class{Name: c.Name, CPU: cores(c.Need.CPU), Memory: c.Need.Memory, User: textOrNull(c.User),
		CreatedAt: instantOrNull(c.Created), ModifiedAt: instantOrNull(c.Modified)}
}
