// Command release makes the files that people install: archives for each system, Debian and RPM packages, a
// container image, a Helm chart, a bill of materials (CycloneDX) and signed checksums. The same commit,
// version and Go release give the same files; the image also needs the same base root (-base).
//
//	cd tools/release && GOWORK=off go run . -version 1.2.3 -epoch 1764000000 -root ../.. -out ../../dist
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// sbom is the tool that lists the modules of a program.
const sbom = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// targets are the systems for which releases are built. For Linux, a release also has packages.
var targets = []struct {
	os, arch string
	packages bool
}{
	{"linux", "amd64", true},
	{"linux", "arm64", true},
	{"darwin", "amd64", false},
	{"darwin", "arm64", false},
	{"windows", "amd64", false},
}

// needs has, for each format, the packages that contain useradd and the kill that the units use for a reload.
var needs = map[string][]string{"deb": {"passwd", "procps"}, "rpm": {"shadow-utils", "util-linux"}}

// versionPattern matches the versions that both package formats and the file names can hold.
var versionPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-~.][0-9A-Za-z.]+)?$`)

// timestampPattern matches the time in a bill of materials. The time would make two builds differ.
var timestampPattern = regexp.MustCompile(`"timestamp": "[^"]*"`)

// toolPattern matches the first hashes in a bill of materials, which are those of the tool. They depend on
// how the tool was built.
var toolPattern = regexp.MustCompile(`(?s)^(.*?"name": "cyclonedx-gomod",.*?)\s*"hashes": \[.*?\],`)

type release struct {
	version   string
	at        time.Time // the time of all files
	root, out string
	stamp     string // the stamp of the sources of the web page
	only      string // the only target, as linux/amd64; "" means all
	revision  string // the commit, for the labels of the image
	base      string // the folder of base roots for the image; "" means made for this release
	key       string // the file of the key that signs the checksums; "" means the variable SKEIN_RELEASE_KEY
	signers   string // the file of the keys that people accept; "" means deploy/allowed_signers
	made      []string
}

func main() {
	r := release{}
	var epoch int64
	flag.StringVar(&r.version, "version", "", "the version, such as 1.2.3")
	flag.Int64Var(&epoch, "epoch", 0, "the time of all files, in seconds since 1970")
	flag.StringVar(&r.root, "root", "../..", "the root of the repository")
	flag.StringVar(&r.out, "out", "../../dist", "the folder for the files")
	flag.StringVar(&r.stamp, "stamp", "", "the stamp of the sources of the web page")
	flag.StringVar(&r.only, "only", "", "the one system that is built for, such as linux/amd64")
	flag.StringVar(&r.revision, "revision", "", "the commit, for the labels of the image")
	flag.StringVar(&r.base, "base", "", "the folder of base roots for the image; missing ones are made there")
	flag.StringVar(&r.key, "key", "", "the key that signs the checksums, as ssh-keygen makes it; without it, the key in "+keyVariable)
	flag.StringVar(&r.signers, "signers", "", "the file of the accepted keys, instead of deploy/allowed_signers")
	from := flag.String("roots-of", "", "make no release: only write the base roots of the image in this archive to the folder of -base")
	flag.Parse()
	if *from != "" {
		if err := r.takeRoots(*from); err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		return
	}
	r.at = time.Unix(epoch, 0).UTC()
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) make() error {
	if !versionPattern.MatchString(r.version) {
		return fmt.Errorf("version %q: use one such as 1.2.3 or 1.2.3-rc.1", r.version)
	}
	if r.stamp == "" {
		return errors.New("-stamp is missing: a release has its web page (make web builds it)")
	}
	sign, end, err := r.signing()
	defer end()
	if err != nil {
		return err
	}
	if err := r.parts(); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(r.out, "build")); err != nil {
		return err
	}
	sums, err := r.sums()
	if err != nil || sign == nil {
		return err
	}
	return sign(sums)
}

// parts makes the files of the release.
func (r *release) parts() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.out, "build"), 0o755); err != nil {
		return err
	}
	first := ""
	var programs []program
	for _, t := range targets {
		if r.only != "" && r.only != t.os+"/"+t.arch {
			continue
		}
		binary, err := r.build(t.os, t.arch)
		if err != nil {
			return err
		}
		first = cmp.Or(first, binary)
		if t.os == "linux" {
			programs = append(programs, program{t.arch, binary})
		}
		if err := r.archive(t.os, t.arch, binary); err != nil {
			return err
		}
		for _, format := range []string{"deb", "rpm"} {
			if !t.packages {
				continue
			}
			if err := r.pack(format, t.arch, binary); err != nil {
				return fmt.Errorf("%s for %s: %w", format, t.arch, err)
			}
		}
	}
	if first == "" {
		return fmt.Errorf("-only %s: no such target", r.only)
	}
	if err := r.chart(); err != nil {
		return fmt.Errorf("helm chart: %w", err)
	}
	if err := r.image(programs); err != nil {
		return err
	}
	if err := r.bill("skein", first); err != nil {
		return err
	}
	if len(programs) > 0 {
		if err := r.bill("skein-plus", programs[0].path+"-plus"); err != nil {
			return err
		}
	}
	return r.check()
}

// run starts a command in the root of the repository.
func (r *release) run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

func (r *release) build(system, arch string) (binary string, err error) {
	binary, err = filepath.Abs(filepath.Join(r.out, "build", system+"_"+arch, "skein"))
	if err != nil {
		return "", err
	}
	if system == "windows" {
		binary += ".exe"
	}
	own := []string{"GOOS=" + system, "GOARCH=" + arch, "CGO_ENABLED=0"}
	flags := "-s -w -X skein.dev/skein/internal/stamp.released=" + r.version + " -X skein.dev/skein/web/ui.sources=" + r.stamp
	if err := r.run(own, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, "./cmd/skein"); err != nil || system != "linux" {
		return binary, err // other systems get no skein-plus, because only nodes start it and nodes need Linux
	}
	// The module of skein-plus is complete without the workspace, which is off here.
	return binary, r.run(own, "go", "build", "-C", "plus", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary+"-plus", "./cmd/skein-plus")
}

// name returns the path of a file of the release.
func (r *release) name(format string, args ...any) string {
	name := filepath.Join(r.out, fmt.Sprintf(format, args...))
	r.made = append(r.made, name)
	return name
}

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// archive writes the program with the first documents to read: a tar.gz, and a zip for Windows.
func (r *release) archive(system, arch, binary string) error {
	top := fmt.Sprintf("skein_%s_%s_%s", r.version, system, arch)
	entries := []entry{}
	all := []string{binary, "LICENSE", "README.md", "CHANGELOG.md"}
	if system == "linux" {
		all = append(all, binary+"-plus")
	}
	for _, from := range all {
		path, mode := from, int64(0o644)
		if strings.HasPrefix(from, binary) {
			mode = 0o755
		} else {
			path = filepath.Join(r.root, from)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, entry{top + "/" + filepath.Base(from), mode, data})
	}
	var b bytes.Buffer
	write, end := r.tarGz, ".tar.gz"
	if system == "windows" {
		write, end = r.zip, ".zip"
	}
	if err := write(&b, entries); err != nil {
		return err
	}
	return os.WriteFile(r.name("%s%s", top, end), b.Bytes(), 0o644)
}

func (r *release) tarGz(to io.Writer, entries []entry) error {
	z := gzip.NewWriter(to)
	t := tar.NewWriter(z)
	for _, e := range entries {
		if err := r.tarFile(t, e); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// tarFile adds a file that belongs to root, with the time of the release.
func (r *release) tarFile(t *tar.Writer, e entry) error {
	if err := t.WriteHeader(&tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: r.at, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := t.Write(e.data)
	return err
}

func (r *release) zip(to io.Writer, entries []entry) error {
	z := zip.NewWriter(to)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: r.at})
		if err != nil {
			return err
		}
		if _, err := w.Write(e.data); err != nil {
			return err
		}
	}
	return z.Close()
}

// pack writes a package for Linux.
func (r *release) pack(format, arch, binary string) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	contents, err := r.contents(binary)
	if err != nil {
		return err
	}
	scripts := nfpm.Scripts{
		PostInstall: filepath.Join(r.root, "deploy/package/postinstall.sh"),
		PreRemove:   filepath.Join(r.root, "deploy/package/preremove.sh"),
		PostRemove:  filepath.Join(r.root, "deploy/package/postremove.sh"),
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "skein", Arch: arch, Platform: "linux", Version: r.version, Section: "admin", Priority: "optional", MTime: r.at,
		Maintainer: "The Skein authors <packages@skein.dev>", Homepage: "https://skein.dev", License: "Apache-2.0",
		Description:  "Distributed DAG job scheduler\n Runs graphs of tasks on time, on many machines, in order, and leaves nothing half done.",
		Overridables: nfpm.Overridables{Contents: contents, Scripts: scripts, Depends: needs[format], Recommends: []string{"ca-certificates"}, Umask: 0o002},
	})
	info.RPM.BuildHost = "skein.dev"
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(r.name("%s", packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		f.Close() //nolint:errcheck // the error before counts
		return err
	}
	return f.Close()
}

// contents lists the files of a package. The units of deploy/systemd name /usr/local/bin; a package has
// /usr/bin.
func (r *release) contents(binary string) (files.Contents, error) {
	all := files.Contents{
		{Source: binary, Destination: "/usr/bin/skein", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.at}},
		{Source: binary + "-plus", Destination: "/usr/bin/skein-plus", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.at}},
		{Source: filepath.Join(r.root, "LICENSE"), Destination: "/usr/share/doc/skein/copyright", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
		{Source: filepath.Join(r.root, "deploy/systemd/skein.tmpfiles.conf"), Destination: "/usr/lib/tmpfiles.d/skein.conf", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}},
		{Destination: "/usr/share/doc/skein", Type: "dir", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.at}},
		{Destination: "/etc/skein", Type: "dir", FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.at}},
	}
	for _, name := range []string{"skein.env", "server.env", "worker.env"} {
		all = append(all, &files.Content{Source: filepath.Join(r.root, "deploy/package", name), Destination: "/etc/skein/" + name,
			Type: "config|noreplace", FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}})
	}
	for _, unit := range []string{"package/skein.service", "systemd/skein-server.service", "systemd/skein-worker.service"} {
		text, err := os.ReadFile(filepath.Join(r.root, "deploy", unit))
		if err != nil {
			return nil, err
		}
		path := filepath.Join(r.out, "build", filepath.Base(unit))
		if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("/usr/local/bin/"), []byte("/usr/bin/")), 0o644); err != nil {
			return nil, err
		}
		all = append(all, &files.Content{Source: path, Destination: "/usr/lib/systemd/system/" + filepath.Base(unit),
			FileInfo: &files.ContentFileInfo{Mode: 0o644, MTime: r.at}})
	}
	return all, nil
}

// bill lists the modules that the build recorded in a program. With few exceptions they are the same on each
// system.
func (r *release) bill(name, binary string) error {
	out, err := filepath.Abs(r.name("%s_%s.cdx.json", name, r.version))
	if err != nil {
		return err
	}
	if err := r.run(nil, "go", "run", sbom, "bin", "-json", "-noserial", "-version", "v"+r.version, "-output", out, binary); err != nil {
		return err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	return os.WriteFile(out, r.settled(text), 0o644)
}

// settled returns a bill of materials without what makes two builds of the same program differ.
func (r *release) settled(bill []byte) []byte {
	at := []byte(`"timestamp": "` + r.at.Format(time.RFC3339) + `"`)
	return toolPattern.ReplaceAll(timestampPattern.ReplaceAll(bill, at), []byte("$1"))
}

// check unpacks the program of the Debian package for this machine and runs it, if dpkg-deb is installed.
func (r *release) check() error {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		return nil
	}
	arch, err := exec.Command("go", "env", "GOARCH").Output()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.made, func(name string) bool { return strings.HasSuffix(name, "_"+strings.TrimSpace(string(arch))+".deb") })
	if i < 0 {
		return nil
	}
	to, err := os.MkdirTemp("", "skein-deb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(to) //nolint:errcheck // a folder for temporary files
	if out, err := exec.Command("dpkg-deb", "-x", r.made[i], to).CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w: %s", r.made[i], err, out)
	}
	out, err := exec.Command(filepath.Join(to, "usr/bin/skein"), "version").CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte("skein "+r.version+" ")) {
		return fmt.Errorf("the program of %s says %q (%v), want version %s", r.made[i], out, err, r.version)
	}
	return nil
}

// sums writes the SHA-256 of each file to the file that it returns.
func (r *release) sums() (file string, err error) {
	var b strings.Builder
	slices.Sort(r.made)
	for _, name := range r.made {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), filepath.Base(name))
	}
	fmt.Print(b.String())
	file = filepath.Join(r.out, "SHA256SUMS")
	return file, os.WriteFile(file, []byte(b.String()), 0o644)
}
