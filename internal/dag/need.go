package dag

import (
	"fmt"
	"strconv"
	"strings"
)

// Need is an amount of resources. It is either what an attempt uses on a machine in addition to its slot, or
// what a worker has. The zero Need means no resources.
type Need struct {
	CPU    int64 `json:"cpu,omitempty"`    // thousandths of a core
	Memory int64 `json:"memory,omitempty"` // bytes
}

// IsZero reports whether the need is empty.
func (n Need) IsZero() bool { return n == Need{} }

// Within reports whether the given free resources of a worker are enough for the need.
func (n Need) Within(has Need) bool {
	return n.CPU <= max(has.CPU, 0) && n.Memory <= max(has.Memory, 0)
}

// Plus and Minus return the sum and the difference of two needs.
func (n Need) Plus(o Need) Need  { return Need{n.CPU + o.CPU, n.Memory + o.Memory} }
func (n Need) Minus(o Need) Need { return Need{n.CPU - o.CPU, n.Memory - o.Memory} }

// String describes the need for people.
func (n Need) String() string {
	var parts []string
	if n.CPU != 0 {
		parts = append(parts, "cpu "+Cores(n.CPU))
	}
	if n.Memory != 0 {
		parts = append(parts, "memory "+Bytes(n.Memory))
	}
	return strings.Join(parts, ", ")
}

// Cores writes thousandths of a core.
func Cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// Bytes formats a size in the largest unit that gives a whole number, or nearly so.
func Bytes(n int64) string {
	const units = "KMGTP"
	v, unit := float64(n), ""
	for i := 0; i < len(units) && v >= 1024; i++ {
		v, unit = v/1024, units[i:i+1]+"i"
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", v), "0"), ".") + unit
}

// With returns the placement of a task that also uses the given resources there.
func (p Place) With(n Need) Place {
	if n.CPU > 0 {
		p += Place(string(rune(placeCPU)) + strconv.FormatInt(n.CPU, 10) + placeEnd)
	}
	if n.Memory > 0 {
		p += Place(string(rune(placeMemory)) + strconv.FormatInt(n.Memory, 10) + placeEnd)
	}
	return p
}

// Need returns the resources that a task with the placement uses.
func (p Place) Need() (n Need) {
	if p == Anywhere {
		return n
	}
	p.each(func(kind byte, text string) bool {
		switch v, _ := strconv.ParseInt(text, 10, 64); kind {
		case placeCPU:
			n.CPU = v
		case placeMemory:
			n.Memory = v
		}
		return true
	})
	return n
}
