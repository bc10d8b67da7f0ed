package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"skein.dev/skein/internal/mounts"
)

// mounts returns the mounts of the folders of the machine. The kernel makes only a single file system read-
// only, and not the file systems mounted below it. So each file system mounted below becomes a mount of its
// own.
func (c *container) mounts() (own []bind, err error) {
	for _, b := range c.binds {
		if b.write {
			own = append(own, b)
			continue
		}
		from, err := filepath.EvalSymlinks(b.from)
		if err != nil {
			from = b.from // let podman report the error
		}
		all, err := mounts.All()
		if err != nil {
			return nil, err
		}
		for _, at := range append([]string{"."}, below(all, from)...) {
			to := filepath.Join(b.at, at)
			if at != "." && slices.ContainsFunc(c.binds, func(o bind) bool { return within(o.at, b.at) && (to == o.at || within(to, o.at)) }) {
				continue // another mount of the task covers this path
			}
			src := filepath.Join(from, at)
			if !plainPath(src) {
				return nil, fmt.Errorf("%s has a comma, colon or quotation mark, which no container can mount: mount that file system elsewhere", src)
			}
			own = append(own, bind{from: src, at: to})
		}
	}
	return own, nil
}

// mountOptions returns podman's options for the folders of the machine.
func (c *container) mountOptions() (args []string, err error) {
	all, err := c.mounts()
	for _, b := range all {
		option := "type=bind,src=" + b.from + ",dst=" + b.at
		if !b.write {
			option += ",ro=true,bind-nonrecursive=true"
		}
		args = append(args, "--mount", option)
	}
	return args, err
}

// within reports whether a path is below a folder.
func within(at, folder string) bool { return strings.HasPrefix(at, folder+"/") }

// below returns the mount points below a folder, as paths relative to it.
func below(all []mounts.Mount, folder string) (paths []string) {
	for _, m := range all {
		if within(m.Point, folder) {
			paths = append(paths, strings.TrimPrefix(m.Point, folder+"/"))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
