package container

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"skein.dev/skein/internal/egress"
)

func TestImageNames(t *testing.T) {
	for _, good := range []string{"python:3.12", "busybox", "localhost/a/b:1", "registry.example:5000/team/tool@sha256:" + strings.Repeat("a", 64), strings.Repeat("0", 64)} {
		if err := CheckImage(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "-v", "--help", "dir:/etc", "docker-archive:a", "oci:a", "docker://a", "a b", "a:b:c", "/etc", "../a", "a,b", "a\nb", "A/../../etc:1"} {
		if CheckImage(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestInput(t *testing.T) {
	w, err := read(json.RawMessage(`{"image":"busybox","run":{"shell":"true"}}`))
	if err != nil || w.Pull != PullMissing || w.Network != NetworkOwn {
		t.Errorf("%+v, %v", w, err)
	}
	for _, bad := range []string{`{"image":"busybox","privileged":true}`, `{"image":"-v"}`, `{"image":"a","user":"a b"}`, `{"image":"a","user":"-1"}`, `{"image":"a","pull":"x"}`,
		`{"image":"a","network":"host"}`, `{"image":"a","env":{"A=B":"c"}}`, `{"image":"a","env":{"A":"\u0000"}}`} {
		if _, err := read(json.RawMessage(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestMounts(t *testing.T) {
	machine := Settings{}
	for _, text := range []string{"data=/srv/data", "out = /srv/out:rw", "models=/opt/models/:ro", "shop/data=/srv/shop:rw", "shop/till=/srv/till"} {
		m, err := ParseMount(text)
		if err != nil {
			t.Error(err)
		}
		machine.Mounts = append(machine.Mounts, m)
	}
	for _, bad := range []string{"", "data", "data=srv", "data=/", "data=/a/..", "a b=/srv", "data=/a,b", "data=/a:b", "=/srv", "/data=/srv", "Shop/data=/srv", "shop/=/srv", "a/b/c=/srv"} {
		if m, err := ParseMount(bad); err == nil {
			t.Errorf("%q is taken as %+v", bad, m)
		}
	}
	w := With{Mounts: map[string]string{"data": "/data", "out": "/out:rw", "models": "/models:ro"}}
	all, err := w.binds(&machine, "web")
	if want := []bind{{"/srv/data", "/data", false}, {"/opt/models", "/models", false}, {"/srv/out", "/out", true}}; err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, %v", all, err)
	}
	for name, bad := range map[string]string{"data": "/data:rw", "else": "/x", "out": "out", "models": "/work/x", "till": "/till"} {
		w := With{Mounts: map[string]string{name: bad}}
		if all, err := w.binds(&machine, "web"); err == nil {
			t.Errorf("%s: %s is allowed: %+v", name, bad, all)
		}
	}
	own := With{Mounts: map[string]string{"data": "/data:rw", "out": "/out", "till": "/till"}}
	all, err = own.binds(&machine, "shop")
	if want := []bind{{"/srv/shop", "/data", true}, {"/srv/out", "/out", false}, {"/srv/till", "/till", false}}; err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("of the namespace: %+v, %v", all, err)
	}
	for _, bad := range []string{"", "/", "/a:x", "/a/../b", "/proc/a", "/skein", "/a,b", "/dev"} {
		if _, _, err := ParseTarget(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	same := With{Mounts: map[string]string{"data": "/x", "out": "/x"}}
	if _, err := same.binds(&machine, "web"); err == nil {
		t.Error("two mounts at one path are taken")
	}
}

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		run        *Run
		argv       []string
		file, code string
	}{
		{nil, nil, "", ""},
		{&Run{Shell: "a | b"}, []string{"sh", "-c", "a | b"}, "", ""},
		{&Run{Argv: []string{"ls", "-l"}}, []string{"ls", "-l"}, "", ""},
		{&Run{Lang: "python", Code: "print()"}, []string{"python3", "/skein/code.py"}, "code.py", "print()"},
		{&Run{File: "a/b.py", Args: []string{"x"}}, []string{"python3", "/work/a/b.py", "x"}, "", ""},
		{&Run{File: "go"}, []string{"/work/go"}, "", ""},
	} {
		argv, file, code, err := c.run.command()
		if err != nil || !reflect.DeepEqual(argv, c.argv) || file != c.file || code != c.code {
			t.Errorf("%+v: %q %q %q %v", c.run, argv, file, code, err)
		}
	}
	for _, bad := range []*Run{{}, {File: "../a"}, {File: "/etc/a"}, {Lang: "perl", Code: "x"}, {Argv: []string{""}}} {
		if _, _, _, err := bad.command(); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestVariables checks that podman's environment holds no variable of a task that podman, its libraries or
// the shell would obey.
func TestVariables(t *testing.T) {
	lines, inherit, err := variables(map[string]string{"B": "1 2", "A": "x=y", "KEY": "a\nb", "LD_PRELOAD": "/work/x.so"})
	if err != nil || lines != "A=x=y\nB=1 2\nLD_PRELOAD=/work/x.so\n" || !reflect.DeepEqual(inherit, []string{"KEY=a\nb"}) {
		t.Errorf("%q %q %v", lines, inherit, err)
	}
	for _, name := range []string{"LD_PRELOAD", "PATH", "HOME", "CONTAINERS_CONF", "GODEBUG", "ENV", "TMPDIR", "https_proxy", "STORAGE_OPTS"} {
		if _, inherit, err := variables(map[string]string{name: "a\nb"}); err == nil || inherit != nil {
			t.Errorf("%s is in the environment of podman", name)
		}
	}
}

// TestRegistries checks which registry the name of an image names, and that the rules of egress apply to it.
func TestRegistries(t *testing.T) {
	for name, want := range map[string]string{
		"busybox": "", "library/busybox:1": "", "docker.io/library/busybox": "docker.io", "r.example:5000/a/b@sha256:0": "r.example:5000", "localhost:5000/a": "localhost:5000", "localhost/a:1": "localhost",
		"INTRANET/a": "INTRANET", "A/b/c:1": "A",
	} {
		if got := registryOf(name); got != want || isLocal(name) != (want == "localhost") {
			t.Errorf("%s: %q, local %v", name, got, isLocal(name))
		}
	}
	for registry, want := range map[string]string{"docker.io": "registry-1.docker.io:443", "r.example": "r.example:443", "127.0.0.1:5000": "127.0.0.1:5000"} {
		if got := addressOf(registry); got != want {
			t.Errorf("%s: %s", registry, got)
		}
	}
	for _, c := range []struct {
		rules, code string
	}{
		{`{"Policies":["any"]}`, ""}, {`{}`, egress.CodePolicy}, {``, egress.CodePolicy}, {`{"Policies":["any","public"]}`, egress.CodePolicy}, {`{"Policies":["public,127.0.0.0/8"]}`, ""},
		{`{"Policies":["any"],"Own":[{"What":"node","Address":"127.0.0.1:5000"}]}`, egress.CodeOwn},
	} {
		err := allowed(t.Context(), json.RawMessage(c.rules), "127.0.0.1:5000")
		if refused, _ := egress.Refused(err); (c.code == "") != (err == nil) || err != nil && (refused == nil || refused.Code != c.code) {
			t.Errorf("%s: %v", c.rules, err)
		}
	}
}

func TestEngines(t *testing.T) {
	for text, good := range map[string]bool{"auto": true, "podman": true, "docker": true, "none": true, "unix:///run/x.sock": true, "unix://x": false, "tcp://127.0.0.1:2375": false, "Docker": false} {
		if err := CheckEngine(text); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
