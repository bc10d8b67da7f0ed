package extension

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"skein.dev/skein/internal/dag"
)

// extensionsMax bounds the extensions of a machine. It also bounds the kinds and sources, including the kinds
// built into Skein. A node refuses workers that offer more.
const extensionsMax = 100

// House is a kind that is built into this program.
type House struct {
	Kind       string // name of the kind, with the prefix of built-in kinds
	Connection string // type of the connection, as in Kind
	// Settings holds the settings of this machine for the kind. It is nil if there are none.
	Settings json.RawMessage
	Boxed    bool // see worker.Kind
	Prepares bool // see worker.Kind
	Releases bool // attempts may have handles
	Adopts   bool // another attempt can adopt the work of a lost one
}

// ReleaseArg is the last argument of a process of this program that releases a handle.
const ReleaseArg = "release"

// Book holds the kinds of a machine that run as processes. Its methods may be called concurrently.
type Book struct {
	folders []string
	version string // the version of this program
	house   []House

	mu    sync.RWMutex // protects following fields
	found []Found
	all   []dag.Extension
}

// Found is an extension that is used, or a folder that is refused.
type Found struct {
	Folder string
	*Manifest
	Err error // why the folder is refused; nil if it is used
}

// Open reads the extensions in folders. If several folders have the same extension, the first one wins. Open
// ignores folders that do not exist.
func Open(folders []string, version string, house []House) *Book {
	b := &Book{folders: folders, version: version, house: house}
	b.Reload()
	return b
}

// Reload reads the folders again, and returns everything that it found.
func (b *Book) Reload() []Found {
	found := Scan(b.folders, b.house)
	var all []dag.Extension
	for i := range found {
		f := &found[i]
		if f.Err != nil {
			continue
		}
		for name, k := range f.Kinds {
			all = append(all, dag.Extension{Kind: name, Version: f.Version, Digest: f.Digest, Connection: k.Connection,
				Releases: k.Release != nil, Adopts: k.Adopts})
		}
	}
	for _, h := range b.house {
		all = append(all, dag.Extension{Kind: h.Kind, Version: b.version, Connection: h.Connection, Releases: h.Releases, Adopts: h.Adopts})
	}
	sort.Slice(all, func(i, j int) bool {
		x, y := &all[i], &all[j]
		return cmp.Or(strings.Compare(x.Kind, y.Kind), compareVersions(y.Version, x.Version)) < 0
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found, b.all = found, all
	return found
}

// Extensions returns the kinds. If a kind has several versions, the newest comes first. A nil Book has no
// kinds.
func (b *Book) Extensions() []dag.Extension {
	if b == nil {
		return nil
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.all
}

// Refused returns the folders that the last reading refused, in a bounded form. A nil Book has none.
func (b *Book) Refused() []dag.Refusal {
	var t dag.Traits
	if b != nil {
		for _, f := range b.Found() {
			if f.Err != nil {
				t.Refuse(f.Folder, f.Err.Error())
			}
		}
	}
	return t.Refused
}

// Found returns everything that Open or the last Reload found.
func (b *Book) Found() []Found {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.found
}

// Command says how to start the process of a kind.
type Command struct {
	Argv     []string
	House    bool // this program itself runs the kind; see worker.Kind
	Boxed    bool // see worker.Kind
	Prepares bool // see worker.Kind
	Name     string
	Version  string
	Digest   string
	Folder   string
	Settings json.RawMessage
}

// ErrUnknown says that this machine does not have a kind.
var ErrUnknown = errors.New("this machine does not have the kind")

// Command checks the input of a kind, and returns how to start its process. If release is true, the process
// releases a handle.
func (b *Book) Command(kind string, with json.RawMessage, release bool) (*Command, error) {
	f, k, house := b.of(kind)
	switch {
	case house != nil:
		name := strings.TrimPrefix(house.Kind, dag.HousePrefix)
		argv := []string{"kind", name}
		if release && !house.Releases {
			return nil, fmt.Errorf("kind %s releases nothing", name)
		}
		if release {
			argv = append(argv, ReleaseArg)
		}
		return &Command{Argv: argv, House: true, Name: name, Version: b.version, Settings: house.Settings, Boxed: house.Boxed, Prepares: house.Prepares}, nil
	case k == nil:
		return nil, fmt.Errorf("%w %s: it was there when the task was assigned; see skein extension list", ErrUnknown, kind)
	}
	if err := k.Input.Check(with, "with", nil); err != nil {
		return nil, fmt.Errorf("the input does not suit kind %s %s: %w", kind, f.Version, err)
	}
	argv := slices.Clone(k.Run)
	if release {
		if k.Release == nil {
			return nil, fmt.Errorf("kind %s %s releases nothing: its version had release when the attempt began; install that version again", kind, f.Version)
		}
		argv = slices.Clone(k.Release)
	}
	argv[0] = ProgramAt(f.Folder, argv[0])
	return &Command{Argv: argv, Name: kind, Version: f.Version, Digest: f.Digest, Folder: f.Folder}, nil
}

// Check compares an input with the schema of a kind. The expressions in the input are not evaluated yet.
// Check returns nil if this machine does not have the kind.
func (b *Book) Check(kind string, with json.RawMessage) error {
	if b == nil {
		return nil
	}
	_, k, _ := b.of(kind)
	if k == nil {
		return nil
	}
	return k.Input.Check(with, "with", func(text string) bool { return strings.Contains(text, "${{") })
}

// of finds a kind by its name, which may include a version.
func (b *Book) of(kind string) (*Found, *Kind, *House) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	x := (&dag.Traits{Extensions: b.all}).Extension(kind)
	if x == nil {
		return nil, nil, nil
	}
	for i := range b.house {
		if b.house[i].Kind == x.Kind {
			return nil, nil, &b.house[i]
		}
	}
	for i := range b.found {
		f := &b.found[i]
		if f.Err != nil || f.Version != x.Version {
			continue
		}
		if k, ok := f.Kinds[x.Kind]; ok {
			return f, &k, nil
		}
	}
	return nil, nil, nil
}

// Scan reads the extensions in folders. If two extensions have the same kind in the same version, the first
// is used, and the second is refused.
func Scan(folders []string, house []House) []Found {
	var all []Found
	seen := map[string]string{}
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				all = append(all, Found{Folder: folder, Err: err})
			}
			continue
		}
		for _, entry := range entries {
			at := filepath.Join(folder, entry.Name())
			if info, err := os.Stat(at); err != nil || !info.IsDir() {
				continue
			}
			if len(all) >= extensionsMax {
				return append(all, Found{Folder: at, Err: fmt.Errorf("there are more than %d extensions: this one and all after it are not read", extensionsMax)})
			}
			f := Found{Folder: at}
			if f.Manifest, f.Err = Read(at); f.Err == nil {
				f.Err = f.first(seen, house)
			}
			all = append(all, f)
		}
	}
	return all
}

// first records the kinds and sources of an extension. It returns an error if another extension has one of
// them.
func (f *Found) first(seen map[string]string, house []House) error {
	n := len(seen) + len(house)
	for name := range f.Sources {
		if at, ok := seen[sourceMark+name+"@"+f.Version]; ok {
			return fmt.Errorf("source %s %s is also in %s: remove one of the two, or give one another version", name, f.Version, at)
		}
		n++
	}
	for name := range f.Kinds {
		if at, ok := seen[name+"@"+f.Version]; ok {
			return fmt.Errorf("kind %s %s is also in %s: remove one of the two, or give one another version", name, f.Version, at)
		}
		n++
		if slices.ContainsFunc(house, func(h House) bool { return h.Kind == name }) {
			return fmt.Errorf("kind %s is built into this program: rename it", name)
		}
	}
	if n > extensionsMax { // checked here, because an extension may have only sources
		return fmt.Errorf("there are more than %d kinds and sources with those of Skein: remove an extension", extensionsMax)
	}
	for name := range f.Kinds {
		seen[name+"@"+f.Version] = f.Folder
	}
	for name := range f.Sources {
		seen[sourceMark+name+"@"+f.Version] = f.Folder
	}
	return nil
}

// Read reads the extension in a folder. The folder, all files in it and the folders above it must belong to
// root or to the user of this process, and only their owner may be able to write them. See guard.
func Read(folder string) (*Manifest, error) {
	at, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	g := guard{folder: folder, seen: map[string]bool{}}
	if err := g.tree(at); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, FileName)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	src, err := io.ReadAll(io.LimitReader(file, manifestMax+1))
	if err != nil {
		return nil, err
	}
	m, err := Parse(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, program := range m.programs() {
		if !strings.Contains(program, "/") {
			continue
		}
		if _, err := g.way(ProgramAt(at, program)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// ProgramAt returns the path of a program that the extension in a folder names. A program without a slash is
// searched for in PATH.
func ProgramAt(folder, program string) string {
	if strings.Contains(program, "/") && !filepath.IsAbs(program) {
		return filepath.Join(folder, program)
	}
	return program
}

// compareVersions compares the parts of two versions that points separate. It compares numbers by value.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var x, y string
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		n, errN := strconv.Atoi(x)
		m, errM := strconv.Atoi(y)
		if errN == nil && errM == nil && n != m {
			return cmp.Compare(n, m)
		}
		if c := strings.Compare(x, y); (errN != nil || errM != nil) && c != 0 {
			return c
		}
	}
	return 0
}
