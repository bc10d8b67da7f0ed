package config

import (
	"bufio"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// service holds the fields of a service in a compose file that a test reads.
type service struct {
	Image       string
	Environment map[string]string
	Volumes     []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	Ports       []string
}

// mounts returns the volumes of a service, by their paths in the container.
func (s service) mounts() map[string]string {
	all := map[string]string{}
	for _, v := range s.Volumes {
		if name, at, ok := strings.Cut(v, ":"); ok {
			at, _, _ = strings.Cut(at, ":")
			all[at] = name
		}
	}
	return all
}

// TestComposeFile: each container of the compose file sees the secrets of its own role and no other one, and the file
// has no password.
func TestComposeFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?i)POSTGRES_PASSWORD:|SKEIN_DB:|SKEIN_API_TOKEN|postgres://[^:@%\s]*:[^%@\s]*@`).Find(text); m != nil {
		t.Errorf("it has a secret, or a place for one: %s", m)
	}
	var file struct {
		Services map[string]service
		Volumes  map[string]any
	}
	// A key overrides the same key of a merged map.
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	secrets := map[string][]string{ // the services that may see each volume with a secret
		"api-token": {"skein", "tokens"}, "node-token": {"n1", "n2", "n3", "tokens"}, "worker-token": {"tokens", "worker"},
		"db-url": {"n1", "n2", "n3", "password", "tokens"}, "db-password": {"db", "password"},
	}
	for name, want := range secrets {
		if _, ok := file.Volumes[name]; !ok {
			t.Errorf("there is no volume %s", name)
		}
		var seen []string
		for of, s := range file.Services {
			if slices.Contains(slices.Collect(maps.Values(s.mounts())), name) {
				seen = append(seen, of)
			}
		}
		if slices.Sort(seen); !slices.Equal(seen, want) {
			t.Errorf("volume %s is seen by %v, want %v", name, seen, want)
		}
	}
	for of, s := range file.Services {
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s can gain privileges", of)
		}
		if s.Image == "skein" && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s: read_only %v, cap_drop %v", of, s.ReadOnly, s.CapDrop)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is published at %s", of, p)
			}
		}
		for name, value := range s.Environment {
			knownSetting(t, of, name)
			if strings.HasSuffix(name, "_FILE") && s.mounts()[path.Dir(value)] == "" {
				t.Errorf("%s: no volume has %s=%s", of, name, value)
			}
		}
	}
}

// knownSetting checks that a variable of Skein belongs to a setting.
func knownSetting(t *testing.T, of, name string) {
	t.Helper()
	if strings.HasPrefix(name, "SKEIN_") && !slices.ContainsFunc(settings(), func(s setting) bool { return s.env() == name }) {
		t.Errorf("%s: %s is no setting", of, name)
	}
}

// TestUnits: the units of systemd keep secrets out of variables, because tasks could read these. They take
// away rights that neither Skein nor a task needs, and keep the rights that Skein needs for its tasks.
func TestUnits(t *testing.T) {
	want := map[string]string{
		"User": "skein", "KillMode": "process", "Delegate": "yes", "StateDirectoryMode": "0700", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
		"ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes", "ProtectProc": "invisible",
		"ProtectKernelTunables": "yes", "ProtectKernelModules": "yes", "ProtectKernelLogs": "yes", "ProtectClock": "yes",
		"RestrictRealtime": "yes", "RestrictSUIDSGID": "yes", "LockPersonality": "yes", "SystemCallArchitectures": "native", "SystemCallErrorNumber": "EPERM",
	}
	for unit, more := range map[string]map[string][]string{
		"systemd/skein-server.service": {"LoadCredential": {"db:/etc/skein/db", "token:/etc/skein/token"}, "RestrictNamespaces": {"yes"}},
		"systemd/skein-worker.service": {"LoadCredential": {"token:/etc/skein/token"}, "RestrictNamespaces": nil},
		"package/skein.service":        {"LoadCredential": nil, "RestrictNamespaces": nil},
	} {
		is := unitOf(t, "../../deploy/"+unit)
		for key, value := range want {
			if !slices.Equal(is[key], []string{value}) {
				t.Errorf("%s: %s is %q, want %q", unit, key, is[key], value)
			}
		}
		for key, values := range more {
			if !slices.Equal(is[key], values) {
				t.Errorf("%s: %s is %q, want %q", unit, key, is[key], values)
			}
		}
		for _, c := range is["LoadCredential"] {
			name, _, _ := strings.Cut(c, ":")
			if !slices.ContainsFunc(settings(), func(s setting) bool { return s.credential == name }) {
				t.Errorf("%s: nothing reads the credential %s", unit, name)
			}
		}
		keepsRights(t, unit, is)
		if calls := is["SystemCallFilter"]; len(calls) == 0 || !strings.HasPrefix(calls[0], "@system-service ") {
			t.Errorf("%s: SystemCallFilter is %q", unit, calls)
		}
		for _, key := range []string{"ProtectControlGroups", "MemoryDenyWriteExecute"} { // these settings break tasks
			if is[key] != nil {
				t.Errorf("%s: %s is %q", unit, key, is[key])
			}
		}
		for _, v := range is["Environment"] {
			name, _, _ := strings.Cut(v, "=")
			if knownSetting(t, unit, name); name == "SKEIN_DB" || name == "SKEIN_API_TOKEN" {
				t.Errorf("%s: a secret is in %s", unit, name)
			}
		}
	}
}

// impliesNoNewPrivileges are the settings for which systemd.exec(5) of systemd 252 says that they set
// NoNewPrivileges.
var impliesNoNewPrivileges = []string{"DynamicUser", "LockPersonality", "MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock", "ProtectHostname",
	"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime",
	"RestrictSUIDSGID", "SystemCallArchitectures", "SystemCallFilter", "SystemCallLog"}

// keepsRights checks that the drop-in for sudo takes back each setting of a unit that would keep tasks from
// gaining rights.
func keepsRights(t *testing.T, unit string, is map[string][]string) {
	t.Helper()
	drop := unitOf(t, "../../deploy/systemd/allow-sudo.conf")
	for _, key := range impliesNoNewPrivileges {
		if is[key] != nil && (len(drop[key]) != 1 || drop[key][0] != "no" && drop[key][0] != "") {
			t.Errorf("%s: the drop-in sets %s to %q", unit, key, drop[key])
		}
	}
	if !slices.Equal(drop["NoNewPrivileges"], []string{"no"}) || !slices.Equal(drop["CapabilityBoundingSet"], []string{"~"}) {
		t.Errorf("%s: the drop-in is %q", unit, drop)
	}
}

// unitOf reads the section Service of a unit.
func unitOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all, section := map[string][]string{}, ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			section = line
		}
		if key, value, ok := strings.Cut(line, "="); ok && section == "[Service]" && !strings.HasPrefix(line, "#") {
			all[key] = append(all[key], value)
		}
	}
	return all
}
