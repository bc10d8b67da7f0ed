// Package hadoop is the kind of tasks that run a program of MapReduce on YARN.
//
// The program is a process of the attempt, and submits jobs. Its jobs are applications of YARN, which go on
// when the attempt dies. A tag names them: see package yarn. The attempt after a lost one waits for the job
// of that attempt, instead of submitting it a second time. When an attempt fails or is stopped, its jobs are
// ended.
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

// Kind runs programs of MapReduce.
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
	Class           string            `json:"class,omitempty"` // "": the jar names it
	Args            []string          `json:"args,omitempty"`
	Conf            map[string]string `json:"conf,omitempty"`
	ResourceManager []string          `json:"resource_manager"` // URLs
	// Several: the program submits more than one job. Then the attempt after a lost one ends the jobs of that
	// attempt and begins again, because a single job is not the result of the program.
	Several bool `json:"several,omitempty"`
}

// read returns the input of an attempt.
func read(in *kind.Input) (w With, err error) {
	if json.Unmarshal(in.With, &w) != nil || w.Jar == "" || len(w.ResourceManager) == 0 {
		return w, errors.New("the input needs jar and resource_manager")
	}
	return w, nil
}

// tagsName is the setting with the tags of applications.
const tagsName = "mapreduce.job.tags"

// site adds settings to a file mapred-site.xml. The last value of a name counts.
func site(old string, conf map[string]string, tag string) string {
	all := maps.Clone(conf)
	if all == nil {
		all = map[string]string{}
	}
	all[tagsName] = tag
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		b.WriteString("<property><name>")
		_ = xml.EscapeText(&b, []byte(name)) // a Builder cannot fail
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
