package dispatch

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/engine"
	"skein.dev/skein/internal/errkind"
	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// narrowed makes a job obey the rules that its namespace has now. They may be newer than its assignment.
func (r *Resolver) narrowed(ctx context.Context, is *resolved) (*resolved, error) {
	if r.cfg.Engine == nil {
		return is, nil
	}
	var err error
	if is.space, is.rules, err = engine.NamespacesOf(r.cfg.Engine()).Demands(ctx, is.version.Namespace); err != nil {
		return nil, err
	}
	is.origin = freshOrigin(&is.space, is.origin)
	if err := obey(is.job, &is.space, is.origin, is.dir); err != nil {
		return nil, err
	}
	if is.job.HTTP != nil {
		is.job.HTTP.Egress = is.job.HTTP.Egress.Under(is.space.Name, is.space.Egress)
	}
	return is, nil
}

// errOld says that the rules were read too long ago. The job is then made again.
var errOld = fmt.Errorf("%w: it took too long to make the job, and the rules of its namespace may have changed", errkind.ErrUnavailable)

// recent returns errOld if the attempt may not begin by these rules any more.
func (is *resolved) recent() error {
	if is.rules.Old(time.Now()) {
		return errOld
	}
	return nil
}

// freshOrigin returns the folder of the workflow file of a task, or "" if the namespace does not allow it.
// Then the attempt gets a fresh folder.
func freshOrigin(is *store.Namespace, origin string) string {
	if is.AllowRead+is.AllowWrite != "" && !slices.Contains(is.Writes(), filepath.Clean(origin)) {
		return ""
	}
	return origin
}

// obey makes a job obey the rules of its namespace. It returns an error if the task names a file that the
// namespace does not allow. origin is the result of
// freshOrigin, and dir the folder that the task names, see remote.Folder.
//
// Only the allowed paths themselves are accepted, and not paths in them: a task that may change a folder
// could put a link there.
func obey(job *worker.Job, is *store.Namespace, origin, dir string) error {
	job.Isolation, job.User = dag.Stricter(job.Isolation, is.Isolation), is.RunAs
	if job.HTTP != nil || is.AllowRead+is.AllowWrite == "" {
		return nil
	}
	refuse := func(what, path, flag string) error {
		return &notStarted{causeStart, fmt.Errorf("%[1]s: namespace %[2]s does not allow tasks to %[3]s %[4]s; to allow it: skein namespace set %[2]s --allow-%[3]s %[4]s, and repeat --allow-%[3]s for each path that it allows already, because the list is replaced",
			what, is.Name, flag, path)}
	}
	reads, writes := slices.Concat(is.Reads(), is.Writes()), is.Writes()
	if a := job.Access; a != nil {
		for _, path := range a.Read {
			if !slices.Contains(reads, filepath.Clean(path)) {
				return refuse("access", path, "read")
			}
		}
		for _, path := range a.Write {
			if !slices.Contains(writes, filepath.Clean(path)) {
				return refuse("access", path, "write")
			}
		}
	}
	for _, folder := range search(job.Env) { // a task reads the folders of its PATH
		if !slices.Contains(reads, filepath.Clean(folder)) {
			return refuse("PATH", folder, "read")
		}
	}
	if !filepath.IsAbs(dir) && origin != "" {
		dir = filepath.Join(origin, dir)
	}
	if filepath.IsAbs(dir) && !slices.Contains(writes, filepath.Clean(dir)) {
		return refuse("the working folder", dir, "write")
	}
	if s := job.Script; s != nil && s.File != "" {
		switch {
		case filepath.IsAbs(s.File) && !slices.Contains(reads, filepath.Clean(s.File)):
			return refuse("the script", s.File, "read")
		case !filepath.IsAbs(s.File) && filepath.IsAbs(dir):
			return &notStarted{causeStart, fmt.Errorf("the script %s is in the folder %s, in which namespace %s lets tasks change files; bring the script by the key files, or write it into the workflow", s.File, dir, is.Name)}
		}
	}
	return nil
}

// search returns the folders of the PATH in an environment, except those of the system.
func search(env []string) (folders []string) {
	for _, kv := range env {
		path, is := strings.CutPrefix(kv, "PATH=")
		if !is {
			continue
		}
		folders = nil // if PATH is set twice, the last value is used
		for folder := range strings.SplitSeq(path, ":") {
			system := slices.ContainsFunc([]string{"/usr", "/bin", "/sbin"}, func(at string) bool { return within(filepath.Clean(folder), at) })
			if filepath.IsAbs(folder) && !system {
				folders = append(folders, folder)
			}
		}
	}
	return folders
}

func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
