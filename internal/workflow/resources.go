package workflow

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"skein.dev/skein/internal/dag"
)

// classes are the resource classes.
var classes = map[string]dag.Need{
	"basic":   {CPU: 250, Memory: 256 << 20},
	"regular": {CPU: 1000, Memory: 1 << 30},
	"premium": {CPU: 2000, Memory: 4 << 30},
}

// resources reads what a task takes of its worker; nil: nothing is written.
func (r *reader) resources(n *node, at string) *dag.Need {
	if n == nil {
		return nil
	}
	if n.kind != mapNode {
		need := classes[n.text]
		return &need
	}
	need := dag.Need{}
	if c := n.get("cpu"); c != nil {
		v, _ := c.float()
		need.CPU = int64(math.Round(v * 1000))
	}
	if m := n.get("memory"); m != nil {
		v, err := ParseSize(m.text)
		if err != nil && sizePattern.MatchString(m.text) { // else it is said already
			r.failNode(m, join(at, "memory"), err.Error(), "write a size such as 512Mi or 4Gi")
		}
		need.Memory = v
	}
	return &need
}

// sizeMax is the largest size that counts can add up, in bytes.
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
