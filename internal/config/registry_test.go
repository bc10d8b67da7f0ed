package config

import (
	"errors"
	"testing"
)

// TestRegistryAway: the setting registry_away has two values, and needs a registry.
func TestRegistryAway(t *testing.T) {
	for name, c := range map[string]struct{ registry, away, fault string }{
		"no registry":             {"", "stop", "registry_away"},
		"no registry, as default": {"", "database", ""},
		"unknown":                 {"etcd://127.0.0.1:2379", "wait", "registry_away"},
		"both":                    {"etcd://127.0.0.1:2379", "stop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("SKEIN_DATA", t.TempDir())
			t.Setenv("SKEIN_DB", "postgres://skein@127.0.0.1/skein")
			t.Setenv("SKEIN_REGISTRY", c.registry)
			t.Setenv("SKEIN_REGISTRY_AWAY", c.away)
			_, err := Load(nil, "")
			var setting *SettingError
			if c.fault == "" && err != nil || c.fault != "" && (!errors.As(err, &setting) || setting.Name != c.fault) {
				t.Errorf("%v, want a fault of %q", err, c.fault)
			}
		})
	}
}
