package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// TestImageIsThatOfTheDockerfile: both ways to an image give the same packages, user, variables, volume,
// ports and commands.
func TestImageIsThatOfTheDockerfile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, _ := strings.Cut(string(text), "\nFROM debian:") // the last stage
	want := imageConfig()
	line := func(pattern string) string {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(last)
		if found == nil {
			t.Fatalf("the Dockerfile has no %s", pattern)
		}
		return found[1]
	}
	list := func(command string) (all []string) {
		if err := json.Unmarshal([]byte(line(`(?m)^`+command+` (.*)$`)), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if is := line(`^([a-z]+)-slim@`); is != suite {
		t.Errorf("it is based on %s, the image on %s", is, suite)
	}
	if is := strings.Fields(line(`--no-install-recommends (.*?) &&`)); !slices.Equal(is, imagePackages) {
		t.Errorf("it installs %v, the image has %v", is, imagePackages)
	}
	if is := line(`(?m)^USER (.*)$`); is != want.User {
		t.Errorf("its user is %s, the image's is %s", is, want.User)
	}
	if is := line(`(?m)^ENV (.*)$`); !slices.Equal(want.Env[1:], []string{is}) {
		t.Errorf("its variables are %s, the image's are %s", is, want.Env[1:])
	}
	if is := line(`(?m)^VOLUME (.*)$`); len(want.Volumes) != 1 || !hasKey(want.Volumes, is) {
		t.Errorf("its volume is %s, the image's are %v", is, want.Volumes)
	}
	if is := line(`(?m)^EXPOSE (.*)$`); len(want.ExposedPorts) != 1 || !hasKey(want.ExposedPorts, is+"/tcp") {
		t.Errorf("its port is %s, the image's are %v", is, want.ExposedPorts)
	}
	if is := list("ENTRYPOINT"); !slices.Equal(is, want.Entrypoint) {
		t.Errorf("its entry point is %v, the image's is %v", is, want.Entrypoint)
	}
	if is := list("CMD"); !slices.Equal(is, want.Cmd) {
		t.Errorf("its command is %v, the image's is %v", is, want.Cmd)
	}

	hook, err := os.ReadFile("finish-root.sh")
	if err != nil {
		t.Fatal(err)
	}
	folders := line(`for d in (.*?); do`)
	user := "skein:x:" + line(`--uid ([0-9]+)`) + ":" + line(`--gid ([0-9]+)`) + "::" + line(`--home-dir (\S+)`) + ":"
	for _, part := range []string{"for d in " + folders + "; do", user, "-m 700 var/lib/skein", `-m 700 "run/skein/$d"`} {
		if !bytes.Contains(hook, []byte(part)) {
			t.Errorf("finish-root.sh has no %q, as the Dockerfile has", part)
		}
	}
}

func hasKey(m map[string]struct{}, key string) bool {
	_, ok := m[key]
	return ok
}

// TestImage: the archive has an image for each architecture with the program in it, and the same input
// gives the same bytes.
func TestImage(t *testing.T) {
	made := func() []byte {
		folder := t.TempDir()
		r := &release{version: "1.2.3", revision: "abc", at: time.Unix(1764000000, 0).UTC(), root: "../..", out: filepath.Join(folder, "dist"), base: folder}
		if err := os.MkdirAll(filepath.Join(r.out, "build"), 0o755); err != nil {
			t.Fatal(err)
		}
		var programs []program
		for _, arch := range []string{"amd64", "arm64"} {
			p := program{arch, filepath.Join(folder, "skein-"+arch)}
			if err := errors.Join(os.WriteFile(p.path, []byte("program of "+arch), 0o755), os.WriteFile(p.path+"-plus", []byte("plus of "+arch), 0o755)); err != nil {
				t.Fatal(err)
			}
			var root bytes.Buffer
			w := tar.NewWriter(&root)
			if err := r.tarFile(w, entry{"etc/os-release", 0o644, []byte("of " + arch)}); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.rootFile(arch), root.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			programs = append(programs, p)
		}
		if err := r.image(programs); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(r.made[0])
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	archive := made()
	if !bytes.Equal(archive, made()) {
		t.Error("two archives of the same input differ")
	}

	// The roots of the archive are those that it was made from, so everybody can make it again.
	again := &release{base: filepath.Join(t.TempDir(), "roots")}
	file := filepath.Join(t.TempDir(), "skein_oci.tar")
	if err := errors.Join(os.WriteFile(file, archive, 0o644), again.takeRoots(file)); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		root, err := os.Open(again.rootFile(arch))
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close() //nolint:errcheck // only read
		if files := filesOf(t, root); len(files) != 1 || files["etc/os-release"] != "of "+arch {
			t.Errorf("the root for %s has %v", arch, files)
		}
	}

	folder := t.TempDir()
	if err := untar(bytes.NewReader(archive), folder); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	list, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Manifests) != 1 || list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3" {
		t.Fatalf("the archive has %+v, want one index with the version as its name", list.Manifests)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if list, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for i, arch := range []string{"amd64", "arm64"} {
		if is := list.Manifests[i].Platform; is.OS != "linux" || is.Architecture != arch {
			t.Errorf("image %d is for %v, want %s", i, is, arch)
		}
		img, err := index.Image(list.Manifests[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != arch || config.Config.User != "999:999" || config.Config.Labels["org.opencontainers.image.version"] != "1.2.3" ||
			config.Config.Labels["org.opencontainers.image.revision"] != "abc" || config.Config.Entrypoint[0] != "skein" {
			t.Errorf("%s: %+v", arch, config)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]string{}
		for _, l := range layers {
			r, err := l.Uncompressed()
			if err != nil {
				t.Fatal(err)
			}
			for name, data := range filesOf(t, r) {
				files[name] = data
			}
		}
		if files["etc/os-release"] != "of "+arch || files["usr/local/bin/skein"] != "program of "+arch || files["usr/local/bin/skein-plus"] != "plus of "+arch || !strings.Contains(files["usr/share/doc/skein/copyright"], "Apache") {
			t.Errorf("%s has the files %v", arch, files)
		}
	}
}

// TestBasesAreDigests: the containers of deploy come from exact bytes, because a tag can be moved to others. The
// tag next to a digest says which image to look up for its next digest, and Go's has the version of go.mod.
func TestBasesAreDigests(t *testing.T) {
	found := 0
	for file, pattern := range map[string]string{"Dockerfile": `(?m)^FROM (\S+)`, "compose.yaml": `(?m)^ +image: (\S+)$`} {
		text, err := os.ReadFile("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			if name[1] == "skein" {
				continue // the image that is built here
			}
			found++
			if !regexp.MustCompile(`^[a-z]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}$`).MatchString(name[1]) {
				t.Errorf("%s is based on %s, want NAME:TAG@sha256:DIGEST", file, name[1])
			}
		}
		if file != "Dockerfile" {
			continue
		}
		mod, err := os.ReadFile("../../go.mod")
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(mod)[1]
		if !bytes.Contains(text, []byte("\nFROM golang:"+string(version)+"@")) {
			t.Errorf("the Dockerfile builds with another Go than go.mod's %s", version)
		}
	}
	if found != 4 {
		t.Errorf("found %d bases, want 4", found)
	}
}

// TestImageWithoutItsTool: without mmdebstrap there is no image and no error, except in CI, where this is an
// error.
func TestImageWithoutItsTool(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := &release{version: "1.2.3", out: t.TempDir()}
	t.Setenv("CI", "")
	if err := r.image([]program{{"amd64", "skein"}}); err != nil || len(r.made) > 0 {
		t.Errorf("made %v, error %v, want none of either", r.made, err)
	}
	t.Setenv("CI", "true")
	if err := r.image([]program{{"amd64", "skein"}}); err == nil || !strings.Contains(err.Error(), "mmdebstrap is missing") {
		t.Errorf("in a CI the error is %v, want that mmdebstrap is missing", err)
	}
}

func filesOf(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}
