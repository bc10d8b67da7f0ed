package main

import (
	"context"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// nameAt reads NS/NAME, the name of a secret, a connection or a channel. A name without a namespace is in the
// namespace default.
func nameAt(kind, arg string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok {
		namespace, name = "default", arg
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usage("%q is not a %s: use NAMESPACE/NAME", arg, kind)
	}
	return namespace, name, nil
}

// byName makes the function of a command whose only argument is NS/NAME.
func byName(kind string, work func(ctx context.Context, s *session, namespace, name string) error) func(context.Context, *session, []string) error {
	return func(ctx context.Context, s *session, args []string) error {
		namespace, name, err := nameAt(kind, args[0])
		if err != nil {
			return err
		}
		return work(ctx, s, namespace, name)
	}
}

// everyPage reads a list to its end. page reads one page; cursor is "" for the first page.
func everyPage[T any](page func(cursor string) (api.List[T], error)) ([]T, error) {
	all := []T{}
	for cursor := ""; ; {
		next, err := page(cursor)
		if err != nil {
			return nil, err
		}
		if all = append(all, next.Items...); next.Next == nil {
			return all, nil
		}
		cursor = *next.Next
	}
}
