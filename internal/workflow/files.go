package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of the files that travel with a version.
const (
	FilesBytesMax = 16 << 20 // all files
	FileMax       = 1 << 20  // bytes of one file
	filesMax      = 10_000
	walkedMax     = 100_000 // entries looked at
)

// File is one file that travels with a version.
type File struct {
	Name string      `json:"name"` // a path with slashes, inside the folder
	Mode fs.FileMode `json:"mode"` // permission bits
	Data []byte      `json:"data"`
}

// CollectFiles reads the files that the globs name, in the order of their names. It reads only regular files
// inside of dir. dir should come from os.Root.FS, which follows no link out of the folder. Each glob must
// match a file. In a glob, ** matches any number of folders.
func CollectFiles(dir fs.FS, globs []string) ([]File, error) {
	names, err := matchFiles(dir, globs)
	if err != nil {
		return nil, err
	}
	var files []File
	total := 0
	for _, name := range names {
		f, err := readFile(dir, name)
		if err != nil {
			return nil, err
		}
		if total += len(f.Data); total > FilesBytesMax {
			return nil, fmt.Errorf("the files are larger than %s together", sizeText(FilesBytesMax))
		}
		files = append(files, f)
	}
	return files, nil
}

func readFile(dir fs.FS, name string) (File, error) {
	in, err := dir.Open(name)
	if err != nil {
		return File{}, fmt.Errorf("file %s: %w", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return File{}, fmt.Errorf("file %s: %w", name, err)
	}
	if !info.Mode().IsRegular() { // the file was replaced since it was listed
		return File{}, fmt.Errorf("file %s: not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(in, FileMax+1))
	if err != nil {
		return File{}, fmt.Errorf("file %s: %w", name, err)
	}
	if len(data) > FileMax {
		return File{}, fmt.Errorf("file %s is larger than %s", name, sizeText(FileMax))
	}
	return File{Name: name, Mode: info.Mode().Perm(), Data: data}, nil
}

// emptyGlobError says that a glob matches no file.
type emptyGlobError struct{ glob string }

func (e *emptyGlobError) Error() string {
	return fmt.Sprintf("the pattern %s names no file", quoteShort(e.glob))
}

// matchFiles lists the regular files that the globs match. It skips folders and files whose names begin with
// a dot, unless the glob itself has the dot.
func matchFiles(dir fs.FS, globs []string) ([]string, error) {
	found := map[string]bool{}
	walked := 0
	for _, glob := range globs {
		clean := path.Clean(glob)
		if !isInside(glob) {
			return nil, fmt.Errorf("the pattern %s leads out of the workflow's folder", quoteShort(glob))
		}
		before := len(found)
		m := matcher{dir: dir, found: found, walked: &walked}
		if err := m.match(".", strings.Split(clean, "/")); err != nil {
			return nil, err
		}
		if len(found) == before && !m.hit {
			return nil, &emptyGlobError{glob}
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

type matcher struct {
	dir    fs.FS
	found  map[string]bool
	walked *int
	hit    bool // the glob has matched a file, even if an earlier glob matched it, too
}

var errTooManyFiles = errors.New("the patterns under files match too many files; name smaller folders")

// match follows the parts of a glob below a folder.
func (m *matcher) match(folder string, parts []string) error {
	if len(parts) == 0 {
		return nil
	}
	entries, err := fs.ReadDir(m.dir, folder)
	if err != nil {
		return fmt.Errorf("folder %s: %w", folder, err)
	}
	if parts[0] == "**" && len(parts) > 1 {
		if err := m.match(folder, parts[1:]); err != nil { // ** also matches no folder
			return err
		}
	}
	for _, e := range entries {
		if *m.walked++; *m.walked > walkedMax || len(m.found) > filesMax {
			return errTooManyFiles
		}
		if strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(parts[0], ".") {
			continue
		}
		if err := m.entry(path.Join(folder, e.Name()), e, parts); err != nil {
			return err
		}
	}
	return nil
}

func (m *matcher) entry(name string, e fs.DirEntry, parts []string) error {
	deep := parts[0] == "**"
	ok, err := path.Match(parts[0], e.Name())
	if err != nil {
		return fmt.Errorf("the pattern %s: %w", quoteShort(strings.Join(parts, "/")), err)
	}
	switch {
	case e.IsDir() && deep:
		return m.match(name, parts)
	case e.IsDir() && ok:
		return m.match(name, parts[1:])
	case !ok && !deep || len(parts) > 1:
		return nil
	}
	// Stat follows a link. If the link leads out of the root, Stat returns an error.
	info, err := fs.Stat(m.dir, name)
	if err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	if info.Mode().IsRegular() {
		m.found[name], m.hit = true, true
	}
	return nil
}

// Travelling returns the globs of the files that are sent with a workflow: its files, and the calendars
// that its triggers name.
func (w *Workflow) Travelling() []string {
	globs := slices.Clone(w.Files)
	for i := range w.Triggers {
		for _, name := range slices.Sorted(maps.Keys(w.Triggers[i].Calendars)) {
			if !slices.Contains(globs, name) {
				globs = append(globs, name)
			}
		}
	}
	return globs
}

// SplitDocuments divides a YAML stream into documents. A line that begins with --- always begins a document,
// because inside of a text it would be indented.
func SplitDocuments(src []byte) [][]byte {
	var all [][]byte
	var doc []byte
	content := false
	end := func() {
		if content {
			all = append(all, doc)
		}
		doc, content = nil, false
	}
	for line := range bytes.Lines(src) {
		trimmed := bytes.TrimSpace(line)
		marker := bytes.HasPrefix(line, []byte("---")) && (len(trimmed) == 3 || line[3] == ' ' || line[3] == '\t')
		if marker {
			end()
			trimmed = bytes.TrimSpace(trimmed[3:])
		}
		doc = append(doc, line...)
		if len(trimmed) > 0 && trimmed[0] != '#' && trimmed[0] != '%' && !bytes.Equal(trimmed, []byte("...")) {
			content = true
		}
	}
	end()
	return all
}
