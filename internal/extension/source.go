package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sourceMark is the prefix of the names of sources in a map that also holds kinds.
const sourceMark = "source "

// ErrUnknownSource says that this machine does not have a source.
var ErrUnknownSource = errors.New("this machine does not have the source")

// SourceCommand is the command that starts a source.
type SourceCommand struct {
	Argv       []string
	Connection string // type of connection, as in Source
	Name       string
	Version    string
	Folder     string
}

// Source checks the input of a source, and returns how to start its process. The name may include a version.
func (b *Book) Source(name string, with json.RawMessage) (*SourceCommand, error) {
	f, s := b.sourceOf(name)
	if s == nil {
		return nil, fmt.Errorf("%w %s: install the extension that has it in a folder of the setting extensions, and run skein extension reload", ErrUnknownSource, name)
	}
	if err := s.Input.Check(with, "with", nil); err != nil {
		return nil, fmt.Errorf("the input does not suit source %s %s: %w", name, f.Version, err)
	}
	argv := slices.Clone(s.Run)
	argv[0] = ProgramAt(f.Folder, argv[0])
	return &SourceCommand{Argv: argv, Connection: s.Connection, Name: name, Version: f.Version, Folder: f.Folder}, nil
}

// CheckSource compares an input with the schema of a source. It returns nil if this machine does not have the
// source.
func (b *Book) CheckSource(name string, with json.RawMessage) error {
	if b == nil {
		return nil
	}
	_, s := b.sourceOf(name)
	if s == nil {
		return nil
	}
	return s.Input.Check(with, "with", nil)
}

// sourceOf finds a source. If several versions suit the name, it returns the newest.
func (b *Book) sourceOf(name string) (*Found, *Source) {
	if b == nil {
		return nil, nil
	}
	name, version, _ := strings.Cut(name, "@")
	b.mu.RLock()
	defer b.mu.RUnlock()
	var best *Found
	for i := range b.found {
		f := &b.found[i]
		if f.Err != nil {
			continue
		}
		if _, ok := f.Sources[name]; !ok || version != "" && f.Version != version && !strings.HasPrefix(f.Version, version+".") {
			continue
		}
		if best == nil || compareVersions(f.Version, best.Version) > 0 {
			best = f
		}
	}
	if best == nil {
		return nil, nil
	}
	s := best.Sources[name]
	return best, &s
}

// programs returns all programs that a manifest names.
func (m *Manifest) programs() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Kinds)) {
		all = append(all, m.Kinds[name].Run[0])
		if release := m.Kinds[name].Release; len(release) > 0 {
			all = append(all, release[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Sources)) {
		all = append(all, m.Sources[name].Run[0])
	}
	return all
}
