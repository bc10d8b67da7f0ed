// Package spark is the kind of tasks that run an application of Apache Spark.
//
// # One application
//
// In the mode cluster, the application runs outside of the process of the attempt, and goes on when the
// attempt dies. On YARN, a tag names it before it is submitted: see package yarn. A master of Spark itself
// gives it an id, which is the handle of the attempt. The attempt after a lost one goes on with that
// application. When an attempt fails or is stopped, its application is ended.
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

// Kind runs applications of Spark.
type Kind struct{}

var (
	_ kind.Needy    = Kind{}
	_ kind.Releaser = Kind{}
)

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Adopts implements kind.Releaser.
func (Kind) Adopts() bool { return true }

// Modes of With.DeployMode.
const (
	ModeCluster = "cluster"
	ModeClient  = "client"
)

// With is the input of the kind.
type With struct {
	Master          string            `json:"master"`
	DeployMode      string            `json:"deploy_mode,omitempty"` // "": ModeClient for a local master, else ModeCluster
	Main            string            `json:"main"`                  // a jar or a program of Python
	Class           string            `json:"class,omitempty"`
	Args            []string          `json:"args,omitempty"`
	Conf            map[string]string `json:"conf,omitempty"`
	Jars            []string          `json:"jars,omitempty"`
	PyFiles         []string          `json:"py_files,omitempty"`
	Files           []string          `json:"files,omitempty"`
	ResourceManager []string          `json:"resource_manager,omitempty"` // URLs, for a cluster of YARN
	REST            string            `json:"rest,omitempty"`             // URL of the REST interface of a master of Spark
}

// Where the application runs.
type place int

const (
	inProcess   place = iota // as a process of the attempt
	onYARN                   // in a cluster of YARN
	onSparkREST              // in a cluster of Spark itself
)

// Place returns where the application runs, or why it cannot be known.
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

// Check returns why an input whose values are known cannot be executed.
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

// arguments returns the arguments of spark-submit. Settings are not among them: see settings.
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

// properties returns settings as lines of a file of properties.
func properties(all map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString(property(name) + "=" + property(all[name]) + "\n")
	}
	return b.String()
}

// property escapes a name or value for a file of properties of Java.
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
