package server

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/egress"
	"skein.dev/skein/internal/store"
	api "skein.dev/skein/sdk/api/v1"
)

// pathBytesMax bounds one path that a namespace allows.
const pathBytesMax = 1024

// userOK matches names of users that every Linux accepts.
var userOK = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)

// checkDemands returns the fault of a request that a namespace can never have.
func checkDemands(in *api.NamespaceRequest) error {
	for name, list := range map[string]*[]string{"allow_read": in.AllowRead, "allow_write": in.AllowWrite} {
		if list == nil {
			continue
		}
		for _, path := range *list {
			if path == "/" || !filepath.IsAbs(path) || filepath.Clean(path) != path || len(path) > pathBytesMax || strings.ContainsAny(path, "\x00\n") {
				return invalid("%s: %.60q is no absolute path in its shortest form, such as /srv/shop", name, path)
			}
		}
	}
	if u := in.RunAs; u != nil && *u != "" && (!userOK.MatchString(*u) || *u == "root") {
		return invalid("run_as: %.40q is not the name of a user that tasks can have, such as shop", *u)
	}
	if e := in.Egress; e != nil && *e != "" {
		if _, err := egress.ParsePolicy(*e); err != nil {
			return invalid("egress: %v", err)
		}
	}
	return nil
}

// demand changes the demands of a namespace that the request contains.
func demand(is *store.Namespace, in *api.NamespaceRequest) {
	if level := in.Isolation; level != nil {
		if is.Isolation = *level; *level == dag.IsolationLevels[0] { // the weakest level demands nothing
			is.Isolation = ""
		}
	}
	for _, text := range []struct {
		to   *string
		from *string
	}{{&is.Egress, in.Egress}, {&is.Locks, in.Locks}, {&is.RunAs, in.RunAs}} {
		if text.from != nil {
			*text.to = *text.from
		}
	}
	if is.Locks == "own" {
		is.Locks = ""
	}
	if in.AllowRead != nil {
		is.AllowRead = strings.Join(*in.AllowRead, "\n")
	}
	if in.AllowWrite != nil {
		is.AllowWrite = strings.Join(*in.AllowWrite, "\n")
	}
}

// demandsNoted describes the demands in the request, for the audit log.
func demandsNoted(in *api.NamespaceRequest) (text string) {
	note := func(name string, value *string) {
		if value != nil {
			text += fmt.Sprintf("%s=%s ", name, *value)
		}
	}
	note("isolation", in.Isolation)
	note("egress", in.Egress)
	note("locks", in.Locks)
	note("run_as", in.RunAs)
	if in.AllowRead != nil {
		text += fmt.Sprintf("allow_read=%q ", *in.AllowRead)
	}
	if in.AllowWrite != nil {
		text += fmt.Sprintf("allow_write=%q ", *in.AllowWrite)
	}
	return text
}

func demandsShown(d *store.Demands) api.Demands {
	return api.Demands{AllowRead: d.Reads(), AllowWrite: d.Writes(), Egress: d.Egress, Locks: d.Locks, RunAs: d.RunAs}
}
