package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// suite is the release of Debian that the image is based on, as in deploy/Dockerfile.
const suite = "bookworm"

// imagePackages has the packages that the tasks of the examples need, as in deploy/Dockerfile.
var imagePackages = []string{"ca-certificates", "python3", "wget"}

// imageConfig returns the settings with which the image starts, like deploy/Dockerfile. The user is a number,
// because Kubernetes cannot check that a name is not root.
func imageConfig() v1.Config {
	return v1.Config{
		User:         "999:999",
		Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SKEIN_DATA=/var/lib/skein"},
		Volumes:      map[string]struct{}{"/var/lib/skein": {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Entrypoint:   []string{"skein"},
		Cmd:          []string{"server"},
	}
}

// program is a built binary for Linux.
type program struct{ arch, path string }

// image writes an OCI archive with an image for each program. It needs no daemon. Without mmdebstrap it makes
// no image, which is an error in CI.
func (r *release) image(programs []program) error {
	if len(programs) == 0 {
		return nil
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil && !r.hasRoots(programs) {
		const missing = "no OCI image: mmdebstrap is missing (apt-get install mmdebstrap)"
		if os.Getenv("CI") == "true" {
			return errors.New(missing)
		}
		fmt.Fprintln(os.Stderr, "release:", missing)
		return nil
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		root, err := r.baseRoot(p.arch)
		if err != nil {
			return err
		}
		img, err := r.imageOf(root, p)
		if err != nil {
			return fmt.Errorf("image for %s: %w", p.arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}}})
	}
	folder := filepath.Join(r.out, "build", "oci")
	to, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	annotations := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "localhost/skein:" + r.version}
	if err := to.AppendIndex(index, layout.WithAnnotations(annotations)); err != nil {
		return err
	}
	return r.tarFolder(r.name("skein_%s_oci.tar", r.version), folder)
}

// rootFile returns the base root of an architecture in the folder for roots.
func (r *release) rootFile(arch string) string {
	return filepath.Join(r.base, "skein-root_"+suite+"_"+arch+".tar")
}

func (r *release) hasRoots(programs []program) bool {
	return !slices.ContainsFunc(programs, func(p program) bool {
		_, err := os.Stat(r.rootFile(p.arch))
		return r.base == "" || err != nil
	})
}

// baseRoot returns a tar file with a small root of Debian. If the folder for roots has such a file, it is
// used again, so that two releases with the same root are equal. Without such a folder, the root is made from
// the present packages.
func (r *release) baseRoot(arch string) (string, error) {
	file := filepath.Join(r.out, "build", "root_"+arch+".tar")
	if r.base != "" {
		file = r.rootFile(arch)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
		if err := os.MkdirAll(r.base, 0o755); err != nil {
			return "", err
		}
	}
	hook, err := filepath.Abs(filepath.Join(r.root, "tools/release/finish-root.sh"))
	if err != nil {
		return "", err
	}
	half, err := filepath.Abs(file + ".new") // the temporary name cannot be taken for a complete root
	if err != nil {
		return "", err
	}
	// Packages are only extracted, and their scripts do not run, so this works for each architecture on each
	// machine.
	err = r.run([]string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix())}, "mmdebstrap", "--quiet", "--variant=extract", "--format=tar",
		"--skip=cleanup/run", "--architectures="+arch, "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--extract-hook="+hook,
		"--include=?essential", "--include="+strings.Join(imagePackages, ","), suite, half)
	if err != nil {
		return "", err
	}
	return file, os.Rename(half, file)
}

// takeRoots writes the base roots of a released image to the folder for roots, so that the release can be
// made again byte by byte. A root is the first layer of the image of its architecture.
func (r *release) takeRoots(archive string) error {
	if r.base == "" {
		return errors.New("-roots-of needs -base, the folder for the roots")
	}
	folder, err := os.MkdirTemp("", "skein-oci")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // a folder for temporary files
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	if err := untar(in, folder); err != nil {
		return fmt.Errorf("read %s: %w", archive, err)
	}
	images, err := imagesOf(folder)
	if err != nil {
		return fmt.Errorf("%s is not an image of a release: %w", archive, err)
	}
	if err := os.MkdirAll(r.base, 0o755); err != nil {
		return err
	}
	for _, img := range images {
		if err := r.takeRoot(img); err != nil {
			return err
		}
	}
	return nil
}

// imagesOf reads the images that image has written to a folder: they are in one index.
func imagesOf(folder string) (images []v1.Image, err error) {
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	list, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(list.Manifests) != 1 {
		return nil, fmt.Errorf("it has %d indexes, want 1", len(list.Manifests))
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		return nil, err
	}
	if list, err = index.IndexManifest(); err != nil {
		return nil, err
	}
	for _, m := range list.Manifests {
		img, err := index.Image(m.Digest)
		if err != nil {
			return nil, err
		}
		images = append(images, img)
	}
	return images, nil
}

func (r *release) takeRoot(img v1.Image) error {
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	if len(layers) == 0 {
		return errors.New("the image has no layer")
	}
	from, err := layers[0].Uncompressed()
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // only read
	file := r.rootFile(config.Architecture)
	to, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close() //nolint:errcheck // the error before counts
		return err
	}
	if err := to.Close(); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// untar unpacks the regular files of an archive into a folder, and refuses names that leave it.
func untar(from io.Reader, folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a descriptor
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		f, err := root.Create(h.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(f, t); err != nil {
			f.Close() //nolint:errcheck // the error before counts
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
}

// imageOf adds the program to a root: each is a layer, so that a registry stores a root once for many
// versions.
func (r *release) imageOf(root string, p program) (v1.Image, error) {
	base, err := tarball.LayerFromFile(root, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	text, err := r.programLayer(p.path)
	if err != nil {
		return nil, err
	}
	top, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	at := v1.Time{Time: r.at}
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: base, History: v1.History{Created: at, CreatedBy: "mmdebstrap " + suite, Comment: strings.Join(imagePackages, " ")}},
		mutate.Addendum{Layer: top, History: v1.History{Created: at, CreatedBy: "make release", Comment: "skein " + r.version}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Author = "linux", p.arch, at, "The Skein authors"
	config.Config = imageConfig()
	config.Config.Labels = r.labels()
	return mutate.ConfigFile(img, config)
}

// labels are those of the OCI image specification.
func (r *release) labels() map[string]string {
	all := map[string]string{
		"title": "Skein", "description": "Distributed DAG job scheduler", "version": r.version, "revision": r.revision,
		"created": r.at.Format(time.RFC3339), "url": "https://skein.dev", "documentation": "https://skein.dev/docs", "vendor": "The Skein authors",
		"licenses": "Apache-2.0", "base.name": "docker.io/library/debian:" + suite,
	}
	labels := map[string]string{}
	for name, value := range all {
		if value != "" {
			labels["org.opencontainers.image."+name] = value
		}
	}
	return labels
}

// programLayer has both programs and their license.
func (r *release) programLayer(binary string) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range []struct {
		from, to string
		mode     int64
	}{{filepath.Join(r.root, "LICENSE"), "usr/share/doc/skein/copyright", 0o644}, {binary, "usr/local/bin/skein", 0o755}, {binary + "-plus", "usr/local/bin/skein-plus", 0o755}} {
		data, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		if err := r.tarFile(t, entry{f.to, f.mode, data}); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tarFolder writes the files of a folder by name, with the time of the release.
func (r *release) tarFolder(to, folder string) error {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the Close below counts
	t := tar.NewWriter(f)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return r.tarFile(t, entry{filepath.ToSlash(name), 0o644, data})
	})
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	return f.Close()
}
