package extension

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"skein.dev/skein/internal/workflow"
)

// FileName names the manifest in the folder of an extension.
const FileName = "extension.yaml"

// protocol is the version of the protocol between Skein and extensions.
const protocol = 1

// Manifest is the content of a file extension.yaml.
type Manifest struct {
	Extension int             `json:"extension"` // the version of the protocol
	Name      string          `json:"name"`
	Version   string          `json:"version"`
	Kinds     map[string]Kind `json:"kinds,omitempty"`
	// Sources are the sources of events. Their processes speak the protocol of package feed.
	Sources map[string]Source `json:"sources,omitempty"`
	Digest  string            `json:"-"` // digest of the file
}

// Source is a source of events. Its fields mean the same as those of a Kind.
type Source struct {
	Run        []string `json:"run"`
	Input      *Schema  `json:"input,omitempty"`
	Connection string   `json:"connection,omitempty"`
}

// Kind is a kind of task. Relative paths of programs start at the folder of the extension.
type Kind struct {
	Run []string `json:"run"` // the program and its arguments
	// Release is the program that releases a handle. If it is nil, attempts have no handles.
	Release []string `json:"release,omitempty"`
	Adopts  bool     `json:"adopts,omitempty"` // see dag.Extension
	Input   *Schema  `json:"input,omitempty"`  // the schema of with; nil allows any input
	// Outputs holds the types of outputs, as information for people and editors.
	Outputs map[string]string `json:"outputs,omitempty"`
	// Connection is the type of the connection that with.connection names, or "" if it names none.
	Connection string `json:"connection,omitempty"`
}

const (
	manifestMax = 256 << 10 // bytes of a manifest
	kindsMax    = 50        // kinds and sources of an extension together
	wordsMax    = 100       // words of a command
)

var (
	nameOK    = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	versionOK = regexp.MustCompile(`^[0-9][A-Za-z0-9_.-]{0,31}$`)
	// connectionOK allows no other types, because nodes refuse workers whose kinds have them.
	connectionOK = regexp.MustCompile(`^[a-z][a-z0-9-]{0,19}(,[a-z][a-z0-9-]{0,19}){0,3}$`)
)

// outputTypes lists the types that an output may have.
var outputTypes = []string{"string", "int", "float", "bool", "json"}

// later lists keys that are reserved for coming versions.
var later = []string{"channels", "secrets"}

// Parse reads a manifest. Its errors name the key, the reason and the remedy.
func Parse(src []byte) (*Manifest, error) {
	if len(src) > manifestMax {
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d: move everything but declarations to other files", len(src), manifestMax)
	}
	docs, errs := workflow.ReadYAML(src, FileName)
	if len(errs) == 0 && len(docs) == 1 {
		errs = docs[0].Errors
	}
	switch {
	case len(errs) > 0:
		return nil, errors.New(strings.TrimSpace(errs.Error()))
	case len(docs) != 1 || docs[0].Value.Kind != workflow.MapValue:
		return nil, errors.New("the file is not one mapping: begin it with extension: 1")
	}
	root := docs[0].Value
	for _, key := range later {
		if root.Get(key) != nil {
			return nil, fmt.Errorf("%s are not yet supported in extensions: remove the key %s; this version knows kinds and sources", key, key)
		}
	}
	if v := root.Get("extension"); v != nil && v.Str() != strconv.Itoa(protocol) {
		return nil, fmt.Errorf("extension: %q is not a version of the protocol that this program knows: write extension: %d, or use a newer Skein", v.Str(), protocol)
	}
	raw, err := json.Marshal(value(root))
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("the file cannot be read: %s; docs/extensions.md lists the keys", strings.TrimPrefix(err.Error(), "json: "))
	}
	sum := sha256.Sum256(src)
	m.Digest = hex.EncodeToString(sum[:])
	return m, m.check()
}

// value converts a YAML value to the form that package json encodes.
func value(v *workflow.Value) any {
	switch {
	case v.Null():
		return nil
	case v.Kind == workflow.MapValue:
		all := map[string]any{}
		for i, k := range v.Keys {
			all[k.Text] = value(v.Vals[i])
		}
		return all
	case v.Kind == workflow.ListValue:
		all := make([]any, len(v.Vals))
		for i := range v.Vals {
			all[i] = value(v.Vals[i])
		}
		return all
	case v.Plain && (v.Text == "true" || v.Text == "false"):
		return v.Text == "true"
	case v.Plain && json.Valid([]byte(v.Text)) && v.Text != "":
		return json.Number(v.Text)
	}
	return v.Text
}

func (m *Manifest) check() error {
	switch {
	case m.Extension != protocol:
		return fmt.Errorf("extension is missing: write extension: %d, the version of the protocol", protocol)
	case !nameOK.MatchString(m.Name):
		return fmt.Errorf("name: %.100q is not a name: use 1 to 100 letters, digits, _, . and -", m.Name)
	case !versionOK.MatchString(m.Version):
		return fmt.Errorf("version: %.100q is not a version: begin it with a digit, as in \"1.4.0\", and quote it if it has one point only", m.Version)
	case len(m.Kinds)+len(m.Sources) == 0:
		return errors.New("kinds and sources are missing or empty: an extension declares at least one kind or source")
	case len(m.Kinds)+len(m.Sources) > kindsMax:
		return fmt.Errorf("it has %d kinds and sources, the limit is %d: make several extensions of it", len(m.Kinds)+len(m.Sources), kindsMax)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Kinds)) {
		k := m.Kinds[name]
		if !nameOK.MatchString(name) {
			return fmt.Errorf("kinds: %.100q is not the name of a kind: use 1 to 100 letters, digits, _, . and -", name)
		}
		if err := k.check(); err != nil {
			return fmt.Errorf("kinds.%s.%w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Sources)) {
		if !nameOK.MatchString(name) {
			return fmt.Errorf("sources: %.100q is not the name of a source: use 1 to 100 letters, digits, _, . and -", name)
		}
		if err := checkProgram(m.Sources[name].Run, m.Sources[name].Connection); err != nil {
			return fmt.Errorf("sources.%s.%w", name, err)
		}
	}
	return nil
}

// checkProgram checks the fields that kinds and sources share.
func checkProgram(run []string, connection string) error {
	if err := checkCommand(run); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	if connection != "" && !connectionOK.MatchString(connection) {
		return fmt.Errorf("connection: %.40q is not a type of connections: write one such as http, or up to 4 with commas and without spaces", connection)
	}
	return nil
}

func (k *Kind) check() error {
	if err := checkProgram(k.Run, k.Connection); err != nil {
		return err
	}
	if k.Release != nil {
		if err := checkCommand(k.Release); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	} else if k.Adopts {
		return errors.New("adopts: it needs the key release, which ends work that no attempt continues: add release, or remove adopts")
	}
	for name, is := range k.Outputs {
		if !slices.Contains(outputTypes, is) {
			return fmt.Errorf("outputs.%s: %.40q is not one of %s", name, is, strings.Join(outputTypes, ", "))
		}
	}
	return nil
}

func checkCommand(words []string) error {
	switch {
	case len(words) == 0 || words[0] == "":
		return errors.New("it names no program: write a list such as [./run.py]")
	case len(words) > wordsMax:
		return fmt.Errorf("it has %d words, the limit is %d", len(words), wordsMax)
	case strings.ContainsRune(strings.Join(words, ""), 0):
		return errors.New("it contains a NUL")
	}
	return nil
}
