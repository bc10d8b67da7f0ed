package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"skein.dev/skein/internal/glob"
)

// walkedMax bounds the number of files and folders that are examined for one attempt.
const walkedMax = 100_000

// pick lists the regular files below dir that the globs name, in the order of their names. In a glob, **
// matches any number of folders. A name without wildcards must exist. A pattern may match nothing. Names that
// begin with a dot match only if the glob names the dot. Links are never followed.
func pick(dir fs.FS, globs []string) ([]string, error) {
	found := map[string]bool{}
	walked := 0
	for _, text := range globs {
		clean := path.Clean(text)
		if !fs.ValidPath(clean) || clean == "." {
			return nil, fmt.Errorf("artifact %q: not a path inside the working directory", text)
		}
		parts := strings.Split(clean, "/")
		fixed := 0
		for fixed < len(parts) && !glob.Wild(parts[fixed]) {
			fixed++
		}
		if fixed == len(parts) {
			if err := must(dir, clean); err != nil {
				return nil, err
			}
			found[clean] = true
			continue
		}
		if err := walk(dir, parts, fixed, found, &walked); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// must returns an error if a name is not that of an existing regular file.
func must(dir fs.FS, name string) error {
	if link := linkIn(dir, path.Dir(name)); link != "" {
		return fmt.Errorf("artifact %s is reached through the link %s: links are not followed", name, link)
	}
	info, err := fs.Lstat(dir, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("artifact %s does not exist: the task must write it to its working directory, or a pattern such as %q must name it", name, pattern(name))
	case err != nil:
		return fmt.Errorf("artifact %s: %w", name, err)
	case info.IsDir():
		return fmt.Errorf("artifact %s is a folder: name its files with %q", name, name+"/**")
	case !info.Mode().IsRegular():
		return fmt.Errorf("artifact %s is not a regular file: links and devices are not kept", name)
	}
	return nil
}

// linkIn returns the first link in the path of a folder. It returns "" if there is none.
func linkIn(dir fs.FS, folder string) string {
	for i := range len(folder) + 1 {
		if i < len(folder) && folder[i] != '/' {
			continue
		}
		if info, err := fs.Lstat(dir, folder[:i]); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return folder[:i]
		}
	}
	return ""
}

// pattern returns a glob for an error text. It matches the named file if the file exists.
func pattern(name string) string {
	folder, base := path.Split(name)
	return folder + "*" + path.Ext(base)
}

// walk adds the files that a glob with wildcards matches. It begins at the part of the glob without
// wildcards.
func walk(dir fs.FS, parts []string, fixed int, found map[string]bool, walked *int) error {
	start := path.Join(append([]string{"."}, parts[:fixed]...)...)
	if linkIn(dir, start) != "" {
		return nil
	}
	return fs.WalkDir(dir, start, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // the folder was not made, or was removed in the meantime
			return nil
		case err != nil:
			return fmt.Errorf("artifacts: %w", err)
		}
		if *walked++; *walked > walkedMax {
			return fmt.Errorf("the patterns under artifacts look at more than %d files: name smaller folders", walkedMax)
		}
		if name == start {
			return nil
		}
		ok, below, err := glob.Match(parts, strings.Split(name, "/"))
		switch {
		case err != nil:
			return fmt.Errorf("artifact %q: %w", strings.Join(parts, "/"), err)
		case e.IsDir() && !below:
			return fs.SkipDir
		case ok && e.Type().IsRegular():
			found[name] = true
		}
		return nil
	})
}
