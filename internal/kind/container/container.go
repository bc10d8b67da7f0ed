// Package container is the kind of tasks that run a command in a container. Podman or an engine with Docker's
// API makes the container.
//
// # Nothing is left behind
//
// Podman needs no daemon: all processes of the container are in the control group of the attempt. A container
// lives in namespaces of processes and mounts that belong to the attempt. The first process of
// these namespaces dies with this process (PR_SET_PDEATHSIG). The kernel then kills all others: podman, the
// monitor of the container, and the processes of the container. Podman keeps its records in file systems in
// memory. Only these namespaces have mounted them, so the records end with the namespaces. The writable layer
// of the container is in the folder of the attempt and is removed with it. Only images are in the store of
// the machine. So no record outlives the container, whichever process is killed, and nothing has to be
// released.
//
// An engine with Docker's API keeps a container outside of the attempt. There, the first process of the
// container is this program. It ends when its connection to the process of the attempt ends: see Inside. The
// engine then removes the container. An attempt that was killed before it started its container leaves one
// without a process, which a later attempt removes: see sweep.
package container

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"

	"skein.dev/skein/internal/access"
)

// Name is the name of the kind.
const Name = "container"

// Kind runs containers.
type Kind struct{}

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Boxed implements kind.Boxed.
func (Kind) Boxed() {}

// Missing implements kind.Needy.
func (Kind) Missing(settings json.RawMessage) error {
	machine, err := readSettings(settings)
	if err == nil {
		_, err = Engine(machine)
	}
	return err
}

// With is the input of the kind.
type With struct {
	Image   string `json:"image"`
	Run     *Run   `json:"run,omitempty"` // nil runs the command of the image
	Pull    string `json:"pull,omitempty"`
	Network string `json:"network,omitempty"`
	User    string `json:"user,omitempty"`
	// Mounts maps the names that the machine gives to folders to paths in the container.
	Mounts map[string]string `json:"mounts,omitempty"`
	Env    map[string]string `json:"env,omitempty"`
}

// Run is a command as written in a workflow.
type Run struct {
	Shell string   `json:"shell,omitempty"` // a text for sh -c
	Argv  []string `json:"argv,omitempty"`
	Lang  string   `json:"lang,omitempty"` // language of Code: python, node, bash or sh
	Code  string   `json:"code,omitempty"`
	File  string   `json:"file,omitempty"` // path of a script in the working folder
	Args  []string `json:"args,omitempty"` // arguments of File
}

// Values of With.Pull: when to pull the image.
const (
	PullMissing = "missing" // the default: only if the machine does not have the image
	PullAlways  = "always"
	PullNever   = "never"
)

// Values of With.Network.
const (
	NetworkOwn  = "own" // the default: a network of the container's own, with connections to the outside
	NetworkNone = "none"
)

// Settings holds the settings of a machine for containers.
type Settings struct {
	Engine string  `json:"engine,omitempty"` // see CheckEngine; "" means EngineAuto
	Mounts []Mount `json:"mounts,omitempty"`
}

// Values of the setting container_engine.
const (
	EngineAuto   = "auto" // podman, or Docker if podman is missing
	EnginePodman = "podman"
	EngineDocker = "docker"
	EngineNone   = "none"
	// SocketPrefix begins the path of the socket of an engine with Docker's API.
	SocketPrefix = "unix://"
)

// CheckEngine returns an error if a text is no value of the setting container_engine.
func CheckEngine(text string) error {
	at, socket := strings.CutPrefix(text, SocketPrefix)
	if socket && path.IsAbs(at) || slices.Contains([]string{EngineAuto, EnginePodman, EngineDocker, EngineNone}, text) {
		return nil
	}
	return fmt.Errorf("%.200q is no engine: write auto, podman, docker, none, or the socket of an engine with Docker's API such as unix:///run/user/1000/podman/podman.sock", text)
}

// readSettings decodes the settings of the machine.
func readSettings(raw json.RawMessage) (s Settings, err error) {
	if len(raw) > 0 {
		if err = json.Unmarshal(raw, &s); err != nil {
			err = fmt.Errorf("the settings of this machine cannot be read: %w", err)
		}
	}
	return s, err
}

// Mount is a folder of the machine that containers may mount.
type Mount struct {
	// Namespace is the only namespace whose containers may mount the folder. "" means every namespace.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	Write     bool   `json:"write,omitempty"`
}

// FullName returns the name as in the setting container_mounts: NAME, or NAMESPACE/NAME.
func (m *Mount) FullName() string {
	if m.Namespace == "" {
		return m.Name
	}
	return m.Namespace + "/" + m.Name
}

// mount finds the folder that a name means for a namespace. A folder of the namespace itself takes precedence
// over one of every namespace.
func (s *Settings) mount(namespace, name string) (found *Mount) {
	for i := range s.Mounts {
		m := &s.Mounts[i]
		if m.Name == name && (m.Namespace == namespace || m.Namespace == "" && found == nil) {
			found = m
		}
	}
	return found
}

// Paths of an attempt's folders in its container.
const (
	workAt = "/work"  // the working folder
	ownAt  = "/skein" // the outputs and inline code
)

var (
	imageName = regexp.MustCompile(`^([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`)
	userName  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)
	mountName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// transports lists words with a special meaning before a colon: they make podman read something other than a
// registry. For example, docker-archive:a is a file.
var transports = []string{"containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "oci", "oci-archive", "ostree", "sif", "tarball", "atomic"}

// CheckImage returns an error if a text is not a valid name of an image.
func CheckImage(name string) error {
	first, _, _ := strings.Cut(name, ":")
	if len(name) > 512 || !imageName.MatchString(name) || slices.Contains(transports, first) {
		return fmt.Errorf("image %.100q is not the name of an image: write it as in python:3.12 or registry.example/team/tool@sha256:…", name)
	}
	return nil
}

// CheckUser returns an error if a text cannot name the user of a container.
func CheckUser(user string) error {
	if user != "" && !userName.MatchString(user) {
		return fmt.Errorf("user %.100q is not a user: write a number or name, or USER:GROUP", user)
	}
	return nil
}

// ParseTarget reads the target of a mount: a path in the container, followed by :rw if the task writes there.
func ParseTarget(text string) (at string, write bool, err error) {
	at, mode, marked := strings.Cut(text, ":")
	switch {
	case marked && mode != "ro" && mode != "rw":
		return "", false, fmt.Errorf("mount %.100q: write a path in the container, and :rw after it if the task writes there", text)
	case !path.IsAbs(at) || path.Clean(at) != at || at == "/" || !plainPath(at):
		return "", false, fmt.Errorf("mount %.100q: the path in the container is absolute, and has no comma, quotation mark or line end", text)
	}
	for _, taken := range []string{workAt, ownAt, "/proc", "/sys", "/dev"} {
		if at == taken || strings.HasPrefix(at, taken+"/") {
			return "", false, fmt.Errorf("mount %.100q: %s has other files in each container; choose another path", text, taken)
		}
	}
	return at, mode == "rw", nil
}

// ParseMount reads one entry of the setting container_mounts: NAME=PATH, followed by :rw if tasks may write
// there. Before the name, NAMESPACE/ may limit the folder to a namespace.
func ParseMount(text string) (Mount, error) {
	name, at, ok := strings.Cut(text, "=")
	m := Mount{Name: strings.TrimSpace(name)}
	ns, own, limited := strings.Cut(m.Name, "/")
	if limited {
		m.Namespace, m.Name = ns, own
	}
	m.Path, m.Write = strings.CutSuffix(strings.TrimSpace(at), ":rw")
	m.Path = strings.TrimSuffix(m.Path, ":ro")
	switch {
	case !ok || !mountName.MatchString(m.Name):
		return m, fmt.Errorf("%.100q: write NAME=PATH, or NAME=PATH:rw if tasks may write there; a name has letters, digits, _ and -", text)
	case limited && (ns == access.Everywhere || access.CheckNamespace(ns) != nil):
		return m, fmt.Errorf("%.100q: %.100q is not the name of a namespace: write NAMESPACE/NAME=PATH, or NAME=PATH for all namespaces", text, ns)
	case !path.IsAbs(m.Path) || !plainPath(m.Path):
		return m, fmt.Errorf("%.100q: the path is absolute, and has no comma, colon, quotation mark or line end", text)
	case path.Clean(m.Path) == "/":
		return m, fmt.Errorf("%.100q: containers may not mount the root of the machine", text)
	}
	m.Path = path.Clean(m.Path)
	return m, nil
}

// plainPath reports whether a path can be written in an option of the engine.
func plainPath(p string) bool { return !strings.ContainsAny(p, ",:\"'\n\r\x00") }

// read decodes and checks the input.
func read(raw json.RawMessage) (*With, error) {
	var w With
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("the input of the task is not that of a container: %w", err)
	}
	if w.Pull == "" {
		w.Pull = PullMissing
	}
	if w.Network == "" {
		w.Network = NetworkOwn
	}
	err := errors.Join(CheckImage(w.Image), CheckUser(w.User))
	if !slices.Contains([]string{PullMissing, PullAlways, PullNever}, w.Pull) {
		err = errors.Join(err, fmt.Errorf("pull %.100q is not missing, always or never", w.Pull))
	}
	if w.Network != NetworkOwn && w.Network != NetworkNone {
		err = errors.Join(err, fmt.Errorf("network %.100q is not own or none", w.Network))
	}
	for name, value := range w.Env {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			err = errors.Join(err, fmt.Errorf("env %.100q cannot be a variable of a container", name))
		}
	}
	return &w, err
}

// bind is a folder of the machine that is mounted at a path in the container.
type bind struct {
	from, at string
	write    bool
}

// binds returns the folders of the machine that a task of a namespace mounts.
func (w *With) binds(of *Settings, namespace string) (all []bind, err error) {
	for name, target := range w.Mounts {
		at, write, bad := ParseTarget(target)
		if bad != nil {
			return nil, bad
		}
		folder := of.mount(namespace, name)
		switch {
		case folder == nil:
			return nil, fmt.Errorf("this machine lets no container of namespace %s mount %q: add it to the setting container_mounts of the node or worker, such as %s/%s=/srv/%s, or %s=/srv/%s for all namespaces",
				namespace, name, namespace, name, name, name, name)
		case write && !folder.Write:
			return nil, fmt.Errorf("this machine lets containers only read the mount %q: write :rw after its path in the setting container_mounts, or remove :rw from the task", name)
		}
		all = append(all, bind{folder.Path, at, write})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].at < all[j].at })
	for i := 1; i < len(all); i++ {
		if all[i].at == all[i-1].at {
			return nil, fmt.Errorf("two mounts of the task have the path %s", all[i].at)
		}
	}
	return all, nil
}

// byExtension maps extensions of script files to interpreters. codeFile maps languages to file names for
// inline code.
var byExtension = map[string]string{".py": "python3", ".sh": "sh", ".bash": "bash", ".js": "node", ".mjs": "node", ".cjs": "node", ".rb": "ruby", ".pl": "perl"}

var codeFile = map[string][2]string{"python": {"python3", "code.py"}, "node": {"node", "code.js"}, "bash": {"bash", "code.bash"}, "sh": {"sh", "code.sh"}}

// command returns the command to run in the container. For inline code it also returns the name and the
// content of the file. If there is no command, the image's own command runs.
func (r *Run) command() (argv []string, file, code string, err error) {
	switch {
	case r == nil:
		return nil, "", "", nil
	case r.Shell != "":
		return []string{"sh", "-c", r.Shell}, "", "", nil
	case r.Code != "":
		by, ok := codeFile[r.Lang]
		if !ok {
			return nil, "", "", fmt.Errorf("run: %q is not a language of inline code", r.Lang)
		}
		return []string{by[0], ownAt + "/" + by[1]}, by[1], r.Code, nil
	case r.File != "":
		at := path.Join(workAt, r.File)
		if path.IsAbs(r.File) || !strings.HasPrefix(at, workAt+"/") {
			return nil, "", "", errors.New("run: file must be a path inside the working folder")
		}
		if by, ok := byExtension[path.Ext(at)]; ok {
			return append([]string{by, at}, r.Args...), "", "", nil
		}
		return append([]string{at}, r.Args...), "", "", nil
	case len(r.Argv) > 0 && r.Argv[0] != "":
		return r.Argv, "", "", nil
	}
	return nil, "", "", errors.New("run is empty: write a command, or leave run out for the command of the image")
}

// perilous lists prefixes of variables that change the behaviour of podman itself. The environment of podman
// never holds such a variable of a task.
var perilous = []string{"LD_", "GO", "PATH", "HOME", "TMP", "XDG_", "CONTAINER", "_CONTAINER", "PODMAN", "STORAGE", "BUILDAH", "REGISTR", "DBUS", "NOTIFY",
	"LISTEN", "SSL_", "HTTP", "HTTPS", "NO_PROXY", "ALL_PROXY", "FTP", "DOCKER", "NETAVARK", "CNI", "GLIBC", "MALLOC", "IFS", "ENV", "PS", "OCI", "_OCI", "CONMON", "SKEIN_", "LC_", "LANG", "NLSPATH", "LOC", "RES_", "HOSTALIASES", "GCONV", "GETCONF"}

// variables splits the environment of the container into two parts: the lines of a file, and the names of
// variables that podman takes from its own environment. The latter have values with several lines, which the
// file cannot hold.
func variables(env map[string]string) (lines string, inherit []string, err error) {
	names := make([]string, 0, len(env))
	for name := range env {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		value := env[name]
		if !strings.ContainsAny(value, "\n\r") {
			fmt.Fprintf(&b, "%s=%s\n", name, value)
			continue
		}
		upper := strings.ToUpper(name)
		if slices.ContainsFunc(perilous, func(p string) bool { return strings.HasPrefix(upper, p) }) {
			return "", nil, fmt.Errorf("env %s has several lines, which is not possible for a variable of this name: use another name", name)
		}
		inherit = append(inherit, name+"="+value)
	}
	return b.String(), inherit, nil
}
