// Package hadoop is the kind of tasks that run a MapReduce program on YARN.
//
// The program is a process of the attempt, and submits jobs. Its jobs are applications of YARN, which
// continue when the attempt dies. A tag identifies them: see package yarn. If an attempt is lost, the next
// attempt waits for its job instead of submitting a second one. When an attempt fails or is stopped, its jobs
// are ended.
package hadoop

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"maps"
	"slices"
	"strings"

	"skein.dev/skein/internal/kind"
)

// Name is the name of the kind.
const Name = "hadoop"

// Kind runs MapReduce programs.
type Kind struct{}

var (
	_ kind.Needy    = Kind{}
	_ kind.Releaser = Kind{}
)

// Name implements kind.Kind.
func (Kind) Name() string { return Name }

// Adopts implements kind.Releaser.
func (Kind) Adopts() bool { return true }

// With is the input of the kind.
type With struct {
	Jar             string            `json:"jar"`
	Class           string            `json:"class,omitempty"` // "" if the jar names the class
	Args            []string          `json:"args,omitempty"`
	Conf            map[string]string `json:"conf,omitempty"`
	ResourceManager []string          `json:"resource_manager"` // URLs of the ResourceManagers
	// Several says that the program submits more than one job. Then no single job is the result of the
	// program. So the attempt after a lost one ends the jobs of the lost attempt and begins again.
	Several bool `json:"several,omitempty"`
}

// read returns the input of an attempt.
func read(in *kind.Input) (w With, err error) {
	if json.Unmarshal(in.With, &w) != nil || w.Jar == "" || len(w.ResourceManager) == 0 {
		return w, errors.New("the input needs jar and resource_manager")
	}
	return w, nil
}

// tagsName is the setting that holds the tags of an application.
const tagsName = "mapreduce.job.tags"

// site adds settings to the content of a file mapred-site.xml. The last value of a name wins.
func site(old string, conf map[string]string, tag string) string {
	all := maps.Clone(conf)
	if all == nil {
		all = map[string]string{}
	}
	all[tagsName] = tag
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString("<property><name>")
		_ = xml.EscapeText(&b, []byte(name)) // writes to a Builder do not fail
		b.WriteString("</name><value>")
		_ = xml.EscapeText(&b, []byte(all[name]))
		b.WriteString("</value></property>\n")
	}
	const end = "</configuration>"
	if at := strings.LastIndex(old, end); at >= 0 {
		return old[:at] + b.String() + old[at:]
	}
	return "<configuration>\n" + b.String() + end + "\n"
}
