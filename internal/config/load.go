package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/goccy/go-yaml"

	"skein.dev/skein/internal/suggest"
)

// configDefault returns the usual path of the config file. It returns "" if there is none.
func configDefault() string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "skein", "config.yaml")
}

// SettingError is a setting with an invalid value. If it has no name, the fault concerns the whole config
// file.
type SettingError struct {
	Name, Origin string
	Err          error
}

func (e *SettingError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("config %s: %v", e.Origin, e.Err)
	}
	return fmt.Sprintf("setting %s (%s): %v", e.Name, e.Origin, e.Err)
}

// Unwrap returns the fault of the value.
func (e *SettingError) Unwrap() error { return e.Err }

// IsFlag reports whether the value was typed on the command line.
func (e *SettingError) IsFlag() bool { return strings.HasPrefix(e.Origin, originFlag) }

// Default reports whether a setting has its default value.
func (c *Config) Default(name string) bool {
	return slices.ContainsFunc(c.Values, func(v Value) bool { return v.Name == name && v.Origin == originDefault })
}

// ByFlag reports whether a setting was given on the command line.
func (c *Config) ByFlag(name string) bool {
	return slices.ContainsFunc(c.Values, func(v Value) bool { return v.Name == name && strings.HasPrefix(v.Origin, originFlag) })
}

const (
	originFlag       = "flag --"
	originCredential = "credential "
	originFile       = "file "
	originDefault    = "default"
)

// Load reads the settings. The order of precedence is flag, environment, config file, credential of the
// service, default. flags has the given flags by name. path is the config file, or "" for the usual path,
// where the file may be missing.
func Load(flags map[string]string, path string) (*Config, error) {
	return load(flags, path, &configText{})
}

// Loader returns a function that loads the settings at each call, as Load does. A pipe, and any other path
// that is no regular file, can be read only once: later calls use the text of the first one.
func Loader(flags map[string]string, path string) func() (*Config, error) {
	kept := &configText{}
	return func() (*Config, error) { return load(flags, path, kept) }
}

func load(flags map[string]string, path string, text *configText) (*Config, error) {
	inFile, path, err := readFile(path, text)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	table := settings()
	for i := range table {
		s := &table[i]
		v := Value{Name: s.name, Value: s.def(), Origin: originDefault}
		if file := credential(s.credential); file != "" {
			v.Value, v.Origin = file, originCredential+s.credential
		}
		if value, ok := inFile[s.name]; ok {
			v.Value, v.Origin = fileText(value), originFile+path
		}
		if env, ok := os.LookupEnv(s.env()); ok && env != "" {
			v.Value, v.Origin = env, "environment "+s.env()
		}
		if flag, ok := flags[s.flag()]; ok {
			v.Value, v.Origin = flag, originFlag+s.flag()
		}
		if s.outranked(c, v.Origin) {
			v.Value, v.Origin = s.def(), originDefault
		}
		if err := s.set(c, v.Value); err != nil {
			return nil, &SettingError{Name: s.name, Origin: v.Origin, Err: err}
		}
		if s.name == "listen" {
			c.ListenChosen = v.Origin != originDefault
		}
		if v.Value != "" && s.shown != nil {
			v.Value = s.shown(v.Value)
		}
		c.Values = append(c.Values, v)
	}
	if err := c.checkSpans(); err != nil {
		return c, err
	}
	if err := c.checkContainerMounts(); err != nil {
		return c, err
	}
	return c, c.checkRegistry()
}

// origin returns the origin of a setting.
func (c *Config) origin(name string) string {
	if i := slices.IndexFunc(c.Values, func(v Value) bool { return v.Name == name }); i >= 0 {
		return c.Values[i].Origin
	}
	return originDefault
}

// Wrong returns the error of a setting with an invalid value.
func (c *Config) Wrong(name string, err error) *SettingError {
	return &SettingError{Name: name, Origin: c.origin(name), Err: err}
}

// readFile reads the config file. It refuses unknown keys, so that a mistyped key is noticed.
func readFile(path string, text *configText) (values map[string]any, at string, err error) {
	chosen := path != ""
	if !chosen {
		path = configDefault()
	}
	if path == "" {
		return nil, "", nil
	}
	content, err := text.of(path)
	if err != nil {
		var access *fs.PathError
		switch {
		case !chosen && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)):
			return nil, "", nil
		case errors.As(err, &access):
			return nil, "", fmt.Errorf("read the config file %s: %w", path, access.Err)
		}
		return nil, "", &SettingError{Origin: "file " + path, Err: err}
	}
	if err := yaml.Unmarshal(bytes.TrimPrefix(content, []byte("\ufeff")), &values); err != nil {
		return nil, "", &SettingError{Origin: "file " + path, Err: unreadable(err)}
	}
	var known []string
	for _, s := range settings() {
		known = append(known, s.name)
	}
	for name := range values {
		if !slices.Contains(known, name) {
			return nil, "", &SettingError{Name: name, Origin: "file " + path,
				Err: fmt.Errorf("there is no such setting; %s", meant(name, known))}
		}
	}
	return values, path, nil
}

// meant returns the known setting whose name is most similar to an unknown one. If none is similar, it
// returns all settings.
func meant(name string, known []string) string {
	if near := suggest.Nearest(name, slices.Values(known)); near != "" {
		return "did you mean " + near + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// unreadable returns an error that says why the text of a config file is no list of settings. It takes only
// the place and the message from the error of the parser, which also shows the text, and so may show secrets.
func unreadable(err error) error {
	reason := "the file is not a list of settings"
	var fault yaml.Error
	if _, isList := errors.AsType[*yaml.UnexpectedNodeTypeError](err); !isList && errors.As(err, &fault) && fault.GetToken() != nil {
		reason = fmt.Sprintf("line %d: %s", fault.GetToken().Position.Line, fault.GetMessage())
	}
	return errors.New(reason + "; write each setting in a line of its own, such as slots: 4")
}

// fileText returns a value of the config file as text. A list of texts becomes "a,b". A map or a list of maps
// becomes JSON.
func fileText(value any) string {
	if text, is := structured(value); is {
		return text
	}
	switch value := value.(type) {
	case nil:
		return ""
	case []any:
		all := make([]string, len(value))
		for i, one := range value {
			all[i] = fmt.Sprint(one)
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(value)
}

// structured returns a map, or a list that contains a map, as JSON.
func structured(value any) (string, bool) {
	isMap := func(v any) bool { _, is := v.(map[string]any); return is }
	if all, is := value.([]any); !isMap(value) && !(is && slices.ContainsFunc(all, isMap)) {
		return "", false
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}
