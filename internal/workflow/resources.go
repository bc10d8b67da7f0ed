package workflow

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
	"skein.dev/skein/internal/suggest"
)

// classes are the built-in resource classes.
var classes = map[string]dag.Need{
	"basic":   {CPU: 250, Memory: 256 << 20},
	"regular": {CPU: 1000, Memory: 1 << 30},
	"premium": {CPU: 2000, Memory: 4 << 30},
}

// BuiltinClasses returns the resource classes that exist in every database, by name.
func BuiltinClasses() []Class {
	all := make([]Class, 0, len(classes))
	for name, need := range classes {
		all = append(all, Class{Name: name, Need: need})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Need.CPU < all[j].Need.CPU })
	return all
}

// Class is a resource class: the resources that a task uses if it names the class.
type Class struct {
	Name string   `json:"name"`
	Need dag.Need `json:"need,omitzero"`
}

const className = `^[a-z][a-z0-9-]{0,62}$`

var classPattern = regexp.MustCompile(className)

// IsClassName reports whether a new class can have this name.
func IsClassName(name string) bool {
	_, builtin := classes[name]
	return !builtin && classPattern.MatchString(name)
}

// class returns the resources of a class as numbers, so that a later change of the class does not change
// existing versions.
func (r *reader) class(n *node, at string) *dag.Need {
	name := n.text
	if need, ok := classes[name]; ok {
		return &need
	}
	if !classPattern.MatchString(name) { // another check has reported the fault
		return nil
	}
	i := slices.IndexFunc(r.named, func(c Class) bool { return c.Name == name })
	if i >= 0 {
		need := r.named[i].Need
		return &need
	}
	own := Class{Name: name}
	if r.opt.Classes != nil {
		if r.own == nil {
			namespace, _, _ := strings.Cut(r.self, "/")
			r.own = r.opt.Classes(namespace)
		}
		need, ok := r.own[name]
		if !ok {
			r.failNode(n, at, fmt.Sprintf("there is no resource class %s; there are %s", name, classNames(r.own)), nearClass(name, r.own))
			return nil
		}
		own.Need = need
	}
	r.named = append(r.named, own)
	return &own.Need
}

// classesShown bounds the names that an error lists.
const classesShown = 20

func classNames(own map[string]dag.Need) string {
	names := []string{"basic", "regular", "premium"}
	mine := slices.Sorted(maps.Keys(own))
	more := ""
	if n := len(mine) - classesShown; n > 0 {
		mine, more = mine[:classesShown], fmt.Sprintf(" and %d more (skein class list)", n)
	}
	return strings.Join(append(names, mine...), ", ") + more
}

func nearClass(name string, own map[string]dag.Need) string {
	known := slices.AppendSeq(slices.Collect(maps.Keys(classes)), maps.Keys(own))
	slices.Sort(known)
	if near := suggest.Nearest(name, slices.Values(known)); near != "" {
		return "did you mean " + near + "?"
	}
	return "name one of these, write {cpu: 2, memory: 4Gi}, or make it: skein class set " + name + " --cpu 2 --memory 4Gi"
}

// resources reads which resources a task uses of its worker. It returns nil if the file names none.
func (r *reader) resources(n *node, at string) *dag.Need {
	if n == nil {
		return nil
	}
	if n.kind != mapNode {
		return r.class(n, at)
	}
	need := dag.Need{}
	if c := n.get("cpu"); c != nil {
		v, _ := c.float()
		need.CPU = int64(math.Round(v * 1000))
	}
	if m := n.get("memory"); m != nil {
		v, err := ParseSize(m.text)
		if err != nil && sizePattern.MatchString(m.text) { // otherwise the fault was already reported
			r.failNode(m, join(at, "memory"), err.Error(), "write a size such as 512Mi or 4Gi")
		}
		need.Memory = v
	}
	return &need
}

// sizeMax is the largest size in bytes. It is small enough that sums cannot overflow.
const sizeMax = 1 << 50

// sizeUnits are the units of sizes, in bytes.
var sizeUnits = map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

// ParseSize reads a size such as 512Mi.
func ParseSize(s string) (int64, error) {
	number := strings.TrimRight(s, "KMGTPEi")
	v, err := strconv.ParseFloat(number, 64)
	unit, ok := sizeUnits[s[len(number):]]
	if err != nil || !ok || !(v >= 0) {
		return 0, fmt.Errorf("%q is not a size such as 512Mi or 4Gi", s)
	}
	if v*unit > sizeMax {
		return 0, fmt.Errorf("%q is more than 1Pi", s)
	}
	return int64(v * unit), nil
}
