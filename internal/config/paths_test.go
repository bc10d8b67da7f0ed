package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/identity"
)

// TestSecretFilesAreProtected: no isolated task reaches a file that a setting names, unless everyone may read it.
func TestSecretFilesAreProtected(t *testing.T) {
	public := []string{"CAFile"}
	c := &Config{}
	c.Auth.OIDC, c.Auth.LDAP = make([]identity.OIDC, 1), &identity.LDAP{}
	var want []string
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				fill(v.Elem())
			}
		case reflect.Slice:
			for i := range v.Len() {
				fill(v.Index(i))
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if f := v.Field(i); f.Kind() == reflect.String && f.CanSet() && strings.HasSuffix(name, "File") && !slices.Contains(public, name) {
					f.SetString("/of-" + v.Type().Name() + "/" + name)
					want = append(want, f.String())
				} else if f.CanSet() {
					fill(f)
				}
			}
		}
	}
	fill(reflect.ValueOf(c))
	if len(want) < 4 {
		t.Errorf("only %q are files of settings", want)
	}
	c.Data, c.Extensions = "/data-of-the-node", []string{"/extensions-of-the-node"}
	want = append(want, c.Extensions[0])
	if watched := c.Unwatched(); !slices.Contains(watched, c.Data) || !slices.Contains(watched, want[0]) {
		t.Errorf("triggers may watch all but %q", watched)
	}
	has := c.Protected()
	for _, file := range want {
		if !slices.Contains(has, file) {
			t.Errorf("%s is not protected", file)
		}
	}
}
