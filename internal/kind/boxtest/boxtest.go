// Package boxtest makes images for tests that run containers.
package boxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Image names the image of the tests. It holds busybox, and its command prints a line.
const Image = "localhost/skein-test:1"

// ConfVar names the variable that tells podman the file with the settings of a store.
const ConfVar = "CONTAINERS_STORAGE_CONF"

// busybox is the only program in the image. It comes from the package busybox-static.
const busybox = "/bin/busybox"

// Store makes an image store with the image, and returns the file with its settings for ConfVar. lacks says
// what the machine lacks for containers. If that is not nil, Store skips the test. With CI=true it fails the
// test instead, unless the kernel cannot make containers.
func Store(t *testing.T, lacks error) string {
	t.Helper()
	if _, err := os.Stat(busybox); err != nil && lacks == nil {
		lacks = fmt.Errorf("%s is missing", busybox)
	}
	if lacks != nil {
		why := kernel()
		if os.Getenv("CI") == "true" && why == nil {
			t.Fatalf("make tools installs what this test needs: %v", lacks)
		}
		t.Skipf("no containers here: %v", errors.Join(lacks, why))
	}
	dir := t.TempDir()
	conf, err := makeStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func makeStore(dir string) (conf string, err error) {
	conf, archive := filepath.Join(dir, "storage.conf"), filepath.Join(dir, "image.tar")
	text := fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n[storage.options.overlay]\nskip_mount_home = \"true\"\n",
		dir+"/root", dir+"/run")
	root, err := rootFolder()
	if err = errors.Join(err, os.WriteFile(conf, []byte(text), 0o600), os.WriteFile(archive, root, 0o600)); err != nil {
		return "", err
	}
	cmd := exec.Command("podman", "import", "--change", "CMD echo of the image", archive, Image)
	cmd.Env = append(os.Environ(), ConfVar+"="+conf)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("import an image: %w: %s", err, said)
	}
	return conf, nil
}

// rootFolder returns the root folder of the image as an archive. It holds busybox under the names of its
// commands.
func rootFolder() ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h *tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err = errors.Join(err, w.WriteHeader(h)); err == nil {
			_, err = w.Write(content)
		}
	}
	for _, dir := range []string{"bin", "tmp", "etc"} {
		add(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o777}, nil)
	}
	add(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, program)
	for name := range strings.FieldsSeq("sh sleep echo cat id env ls touch true false grep mount wget stat kill chmod") {
		add(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}, nil)
	}
	return out.Bytes(), errors.Join(err, w.Close())
}

// Docker returns the command of Docker's engine at a socket, with its data in a folder. If the machine does
// not have the engine, Docker skips the test, or fails it with CI=true.
func Docker(t *testing.T, socket, dir string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil {
		why := "there is no dockerd: make docker installs it"
		if os.Getenv("CI") == "true" && kernel() == nil {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return exec.Command("dockerd", "--host", "unix://"+socket, "--data-root", dir+"/root", "--exec-root", dir+"/run", "--pidfile", dir+"/pid", "--bridge", "none", "--iptables=false", "--ip6tables=false")
}

// Load imports the image into the engine with Docker's API at a socket.
func Load(t *testing.T, socket string) {
	t.Helper()
	root, err := rootFolder()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker", "--host", "unix://"+socket, "import", "--change", `CMD ["echo","of the image"]`, "-", Image)
	cmd.Stdin = bytes.NewReader(root)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import an image: %v: %s", err, said)
	}
}
