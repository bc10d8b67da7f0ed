package server

import (
	"net/http"
	"reflect"
	"strings"

	api "skein.dev/skein/sdk/api/v1"
)

// Versioned holds the conditions of a change of an object that has a version.
type Versioned struct {
	IfMatch     string `header:"If-Match" doc:"The version that is changed, in quotes; another one is refused with 412."`
	IfNoneMatch string `header:"If-None-Match" doc:"*: only if there is no such object yet."`
}

// met refuses a change whose conditions do not fit the stored version. Without an object, the version is 0.
func (v *Versioned) met(version int64, what string) error {
	expected, err := (&Conditional{v.IfMatch}).revision()
	switch {
	case err != nil:
		return err
	case strings.TrimSpace(v.IfNoneMatch) == "*" && version != 0:
		return fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "If-None-Match: there is a %s already", what)
	case expected != 0 && version == 0:
		return fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "If-Match: there is no %s", what)
	case expected != 0 && version != expected:
		return fail(http.StatusPreconditionFailed, api.ProblemPrecondition, "%s has changed: its version is %d, not %d", what, version, expected)
	}
	return nil
}

// invalidConfig refuses a configuration of one kind. If the message begins with a key of that kind, Errors
// names the key, so that a form shows the message at its field.
func invalidConfig(what string, config any, err error) error {
	f := invalid("%s: %s", what, err)
	if key, message := configKey(reflect.ValueOf(config), err.Error()); key != "" {
		f.Errors = []api.FileError{{Line: 1, Column: 1, Key: key, Message: message}}
	}
	return f
}

// configKey returns the key with which a message begins, and the message without the name of the kind. config
// has a pointer for each kind, of which one is set.
func configKey(config reflect.Value, message string) (key, text string) {
	for i := range config.NumField() {
		of := config.Field(i)
		if of.IsNil() {
			continue
		}
		kind, _, _ := strings.Cut(config.Type().Field(i).Tag.Get("json"), ",")
		text = strings.TrimPrefix(message, kind+".")
		first := text[:max(strings.IndexAny(text+" ", " :"), 0)]
		for _, field := range reflect.VisibleFields(of.Type().Elem()) {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name == first {
				return name, text
			}
		}
	}
	return "", ""
}
