//go:build linux

package worker

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"skein.dev/skein/internal/fence"
)

// Many programs in a folder of PATH need files in folders next to that folder, for example programs of pyenv,
// nvm or a virtual environment. A task behind a fence may read these files, too, if the folder is in the PATH
// of the worker. A folder that is only in the task's own PATH adds nothing, because a task names such files
// under the key access.

// toolset is the result of toolsOf for a PATH and a home folder.
type toolset struct {
	search, home string
	folders      []string
}

// toolsIn returns what the programs in the PATH of the worker need.
func (w *Worker) toolsIn(wall *wall) []string {
	search := w.shell.Load().search
	if is := w.tools.Load(); is != nil && is.search == search && is.home == wall.home {
		return is.folders
	}
	is := &toolset{search, wall.home, toolsOf(search, wall.home, wall.shut)}
	w.tools.Store(is)
	return is.folders
}

// Bounds of toolsOf. Each start of a process copies a rule for each folder.
const (
	toolsMax    = 48    // folders and files in the result
	programsMax = 5_000 // programs of one folder of PATH that are examined
	linksMax    = 8     // links from a program to its file
)

// toolsOf returns the folders and files that the programs in a PATH need in addition to the folders of PATH
// and those of systemRead: the installations of the folders of PATH, of the targets of links in these
// folders, and of the interpreters of scripts in them. No path of shut is in the result, or in a folder of
// the result.
func toolsOf(search, home string, shut []string) []string {
	t := tools{home: realPathsOf([]string{home})[0], shut: realPathsOf(shut)}
	var folders []string
	for folder := range strings.SplitSeq(search, ":") {
		if real, err := filepath.EvalSymlinks(folder); err == nil && filepath.IsAbs(folder) && !t.wide(real) && !slices.Contains(folders, real) {
			folders = append(folders, real)
		}
	}
	t.known = folders
	for _, folder := range folders {
		t.installation(folder)
	}
	for _, folder := range folders {
		t.programs(folder)
	}
	return t.found
}

func realPathsOf(paths []string) []string {
	all := slices.Clone(paths)
	for i, path := range all {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			all[i] = real
		}
	}
	return all
}

// tools collects the result of toolsOf.
type tools struct {
	home  string // "" if there is none
	shut  []string
	known []string // paths that tasks may read anyway
	found []string
}

// wide reports whether a folder is or contains a home folder.
func (t *tools) wide(folder string) bool {
	return folder == "/" || folder == "/home" || filepath.Dir(folder) == "/home" || t.home != "" && fence.Within(t.home, folder)
}

// add adds a path without links. It adds nothing if tasks may read the path anyway, or if no task may read
// it.
func (t *tools) add(path string) {
	covers := func(by string) bool { return fence.Within(path, by) }
	holds := func(shut string) bool { return fence.Within(shut, path) || fence.Within(path, shut) }
	if !t.reads(path) && !slices.ContainsFunc(t.found, covers) && !t.wide(path) && !slices.ContainsFunc(t.shut, holds) && len(t.found) < toolsMax && exists(path) {
		t.found = append(t.found, path)
	}
}

// reads reports whether tasks may read a path anyway.
func (t *tools) reads(path string) bool {
	covers := func(by string) bool { return fence.Within(path, by) }
	return slices.ContainsFunc(systemRead, covers) || slices.ContainsFunc(t.known, covers)
}

// programFolders are the names of folders with the programs of an installation. The other folders of the
// installation are next to it.
var programFolders = []string{"bin", "sbin", "libexec", "shims", "condabin"}

// libraries are the folders of an installation with what its programs load.
var libraries = []string{"lib", "lib32", "lib64", "libexec"}

// installation adds the installation whose programs are in a folder. It adds nothing if the folder belongs to
// no installation.
//
// An installation is the parent folder, if that one contains a folder of libraries or folders of versions.
// The parent folder may also contain other things: a folder directly below /, ~/.local, or a folder of a home
// folder that is neither hidden nor marked as an installation, such as a project. Then only the libraries in
// it are added.
func (t *tools) installation(programs string) {
	prefix := filepath.Dir(programs)
	if !slices.Contains(programFolders, filepath.Base(programs)) || t.wide(prefix) || t.reads(prefix) {
		return
	}
	has := func(name string) bool { return exists(filepath.Join(prefix, name)) }
	if !slices.ContainsFunc([]string{"lib", "lib32", "lib64", "libexec", "share", "versions", "installs", "pyvenv.cfg"}, has) {
		return
	}
	if !t.shared(prefix, has) {
		if t.add(prefix); slices.Contains(t.found, prefix) {
			return
		}
	}
	for _, name := range libraries {
		if real, err := filepath.EvalSymlinks(filepath.Join(prefix, name)); err == nil && fence.Within(real, prefix) {
			t.add(real)
		}
	}
}

// shared reports whether a folder may contain other things than one installation.
func (t *tools) shared(prefix string, has func(string) bool) bool {
	if filepath.Dir(prefix) == "/" {
		return true
	}
	below, ok := strings.CutPrefix(prefix, t.home+"/")
	if t.home == "" || !ok {
		return false
	}
	if slices.ContainsFunc([]string{"pyvenv.cfg", "conda-meta", "release", "lib/node_modules"}, has) {
		return false
	}
	return slices.Contains([]string{".local", ".local/share", ".config", ".cache"}, below) || !strings.HasPrefix(below, ".")
}

// programs adds the installations of the programs in a folder: of the files to which links lead, and of the
// interpreters of scripts.
func (t *tools) programs(folder string) {
	dir, err := os.Open(folder)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, err := dir.ReadDir(programsMax)
	if err != nil && err != io.EOF {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			t.program(path, true)
		case entry.Type().IsRegular() && !inSystem(folder):
			t.interpreter(path)
		}
	}
}

// inSystem reports whether the programs of a folder belong to the system, which has its own interpreters.
func inSystem(folder string) bool {
	return slices.Contains([]string{"/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/games"}, folder)
}

// program adds the installations of a program and of all files to which it is a link. scripts says that the
// interpreter of the last file counts, too. A path that leads to a folder, or to a file that cannot be
// executed, adds nothing.
func (t *tools) program(path string, scripts bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return
	}
	for range linksMax {
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return
		}
		path = filepath.Join(folder, filepath.Base(path))
		if !t.reads(path) {
			t.file(path)
		}
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(folder, to)
		}
		path = to
	}
	if scripts && !t.reads(path) {
		t.interpreter(path)
	}
}

// mixed reports whether a folder may have files that do not belong to the programs in it: a folder directly
// below /, and the folders of people, of services and of data.
func mixed(folder string) bool {
	holds := func(at string) bool { return fence.Within(folder, at) }
	return filepath.Dir(folder) == "/" || slices.ContainsFunc([]string{"/home", "/root", "/var", "/srv", "/mnt", "/media", "/run"}, holds)
}

// file adds the installation of a program.
func (t *tools) file(path string) {
	const modules = "/node_modules/"
	if i := strings.Index(path, modules); i >= 0 {
		t.add(path[:i+len(modules)-1])
		return
	}
	folder := filepath.Dir(path)
	t.installation(folder)
	hidden := t.home != "" && strings.HasPrefix(folder, t.home+"/.")
	switch {
	case slices.Contains(programFolders, filepath.Base(folder)) && !t.wide(folder):
		t.add(folder)
	case hidden && filepath.Dir(folder) != t.home, !t.wide(folder) && !mixed(folder) && (t.home == "" || !fence.Within(folder, t.home)):
		t.add(folder) // for example /opt/google/chrome
	default:
		t.add(path)
	}
}

// interpreter adds the installation of the interpreter that the first line of a script names.
func (t *tools) interpreter(path string) {
	if line := head(path); len(line) > 0 && filepath.IsAbs(line[0]) && !bytes.HasSuffix([]byte(line[0]), []byte("/env")) {
		t.program(line[0], false)
	}
}
