// Package spark is the kind of tasks that run an application of Apache Spark.
//
// # One application
//
// In the mode cluster, the application runs outside of the process of the attempt, and continues when the
// attempt dies. On YARN, the application gets a tag before it is submitted: see package yarn. A master of
// Spark itself returns an id. The tag or the id is the handle of the attempt. If an attempt is lost, the next
// one continues with its application. When an attempt fails or is stopped, its application is ended.
//
// In the mode client, and with a local master, the driver is a process of the attempt and ends with it.
package spark

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"skein.dev/skein/internal/kind"
)

// Name is the name of the kind.
const Name = "spark"

// Kind runs Spark applications.
type Kind struct{}

var (
	_ kind.Needy    = Kind{}
	_ kind.Releaser = Kind{}
)

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Adopts implements kind.Releaser.
func (Kind) Adopts() bool { return true }

// Values of With.DeployMode.
const (
	ModeCluster = "cluster"
	ModeClient  = "client"
)

// With is the input of the kind.
type With struct {
	Master string `json:"master"`
	// DeployMode "" means ModeClient for a local master, and ModeCluster for any other.
	DeployMode      string            `json:"deploy_mode,omitempty"`
	Main            string            `json:"main"` // path of a jar or a Python program
	Class           string            `json:"class,omitempty"`
	Args            []string          `json:"args,omitempty"`
	Conf            map[string]string `json:"conf,omitempty"`
	Jars            []string          `json:"jars,omitempty"`
	PyFiles         []string          `json:"py_files,omitempty"`
	Files           []string          `json:"files,omitempty"`
	ResourceManager []string          `json:"resource_manager,omitempty"` // URLs; only for a YARN cluster
	// REST is the URL of the REST interface of a Spark master.
	REST string `json:"rest,omitempty"`
}

// place says where the application runs.
type place int

const (
	inProcess   place = iota // in a process of the attempt
	onYARN                   // in a YARN cluster
	onSparkREST              // in a cluster of Spark itself
)

// place returns where the application runs. It returns an error if the input does not say so clearly.
func (w *With) place() (place, error) {
	local := w.Master == "local" || strings.HasPrefix(w.Master, "local[")
	switch {
	case w.Master == "" || w.Main == "":
		return 0, errors.New("the input needs master and main")
	case strings.HasPrefix(w.Main, "-"):
		return 0, fmt.Errorf("main: %.100q would be an option of spark-submit: write ./ before it", w.Main)
	case w.DeployMode == ModeCluster && local:
		return 0, errors.New("a local master has no mode cluster: remove deploy_mode")
	case local || w.DeployMode == ModeClient:
		return inProcess, nil
	case w.Master == "yarn" && len(w.ResourceManager) == 0:
		return 0, errors.New("master yarn in the mode cluster needs resource_manager, such as http://rm:8088")
	case w.Master == "yarn":
		return onYARN, nil
	case strings.HasPrefix(w.Master, "spark://") && w.REST == "":
		return 0, errors.New("a master of Spark in the mode cluster needs rest, such as http://master:6066, and its setting spark.master.rest.enabled")
	case strings.HasPrefix(w.Master, "spark://"):
		return onSparkREST, nil
	}
	return 0, fmt.Errorf("master %.100q is not known in the mode cluster: it is yarn, or spark://HOST:PORT", w.Master)
}

// Check returns an error if an input whose values are known cannot be executed.
func (w *With) Check() error {
	at, err := w.place()
	if err == nil && at == onSparkREST && w.Class == "" {
		err = errors.New("a master of Spark runs jars in the mode cluster, so class is needed: write deploy_mode: client for a program of Python")
	}
	return err
}

// read returns the input of an attempt.
func read(in *kind.Input) (w With, at place, err error) {
	if json.Unmarshal(in.With, &w) != nil {
		return w, 0, errors.New("the input of the kind cannot be read")
	}
	if err := w.Check(); err != nil {
		return w, 0, err
	}
	at, err = w.place()
	return w, at, err
}

// arguments returns the arguments of spark-submit. They contain no settings: see settings.
func (w *With) arguments(at place, name string) []string {
	mode := ModeClient
	if at == onYARN {
		mode = ModeCluster
	}
	args := []string{"--master", w.Master, "--deploy-mode", mode, "--name", name}
	if w.Class != "" {
		args = append(args, "--class", w.Class)
	}
	for _, list := range []struct {
		flag  string
		paths []string
	}{{"--jars", w.Jars}, {"--py-files", w.PyFiles}, {"--files", w.Files}} {
		if len(list.paths) > 0 {
			args = append(args, list.flag, strings.Join(list.paths, ","))
		}
	}
	return append(append(args, w.Main), w.Args...)
}

// properties returns settings as the lines of a properties file.
func properties(all map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(property(name) + "=" + property(all[name]) + "\n")
	}
	return b.String()
}

// property escapes a name or a value for a Java properties file.
func property(text string) string {
	var b strings.Builder
	for _, c := range utf16.Encode([]rune(text)) {
		switch {
		case c == '\\' || c == '=' || c == ':' || c == '#' || c == '!':
			b.WriteString(`\` + string(rune(c)))
		case c <= ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}
