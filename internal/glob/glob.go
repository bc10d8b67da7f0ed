// Package glob matches names of files with patterns: parts are separated by slashes, ** stands for any
// number of folders, and a name with a leading dot needs a pattern with one. It reads no disk.
package glob

import (
	"path"
	"strings"
)

// Wild reports whether a glob can match a name other than its own text.
func Wild(glob string) bool { return strings.ContainsAny(glob, `*?[\`) }

// Names reports whether a glob names a file.
func Names(glob, name string) bool {
	ok, _, err := Match(strings.Split(path.Clean(glob), "/"), strings.Split(name, "/"))
	return ok && err == nil
}

// Match reports whether a name matches the parts of a glob, and whether a name below it can match.
func Match(parts, name []string) (ok, below bool, err error) {
	if len(parts) == 0 {
		return len(name) == 0, false, nil
	}
	if len(name) == 0 {
		return false, true, nil
	}
	hidden := strings.HasPrefix(name[0], ".") && !strings.HasPrefix(parts[0], ".")
	if parts[0] != "**" {
		if one, err := path.Match(parts[0], name[0]); err != nil || !one || hidden {
			return false, false, err
		}
		return Match(parts[1:], name[1:])
	}
	if len(parts) > 1 { // ** is also no folder at all
		if ok, below, err = Match(parts[1:], name); ok || err != nil {
			return ok, true, err
		}
	}
	if hidden {
		return false, below, nil
	}
	if len(parts) == 1 && len(name) == 1 {
		return true, true, nil
	}
	ok, deeper, err := Match(parts, name[1:])
	return ok, below || deeper, err
}

// Meet reports whether a file can have a name that two globs match. It may return true if no file can,
// because of the text between two wildcards. It never returns false if a file can.
func Meet(a, b string) bool {
	m := meeting{a: strings.Split(path.Clean(a), "/"), b: strings.Split(path.Clean(b), "/"), never: map[[2]int]bool{}}
	return m.from(0, 0)
}

// meeting remembers the positions from which two globs cannot meet, so that the cost of many ** is at most
// their product.
type meeting struct {
	a, b  []string
	never map[[2]int]bool
}

func (m *meeting) from(i, j int) bool {
	if m.never[[2]int{i, j}] {
		return false
	}
	ok := m.look(i, j)
	if !ok {
		m.never[[2]int{i, j}] = true
	}
	return ok
}

func (m *meeting) look(i, j int) bool {
	restA, restB := len(m.a)-i, len(m.b)-j
	switch {
	case restA > 0 && m.a[i] == "**":
		// At the end, ** stands for at least one name. Elsewhere it stands for any number of folders.
		return restA > 1 && m.from(i+1, j) || restA == 1 && restB == 1 || restB > 0 && m.from(i, j+1)
	case restB > 0 && m.b[j] == "**":
		return restB > 1 && m.from(i, j+1) || restA == 1 && restB == 1 || restA > 0 && m.from(i+1, j)
	case restA == 0 || restB == 0:
		return restA == restB
	}
	return partsMeet(m.a[i], m.b[j]) && m.from(i+1, j+1)
}

// partsMeet compares the fixed beginnings and the fixed ends of two parts.
func partsMeet(a, b string) bool {
	switch {
	case !Wild(a) && !Wild(b):
		return a == b
	case !Wild(b):
		ok, err := path.Match(a, b)
		return ok && err == nil
	case !Wild(a):
		return partsMeet(b, a)
	}
	return endsMeet(a[:strings.IndexAny(a, wildcards)], b[:strings.IndexAny(b, wildcards)], strings.HasPrefix) &&
		endsMeet(tail(a), tail(b), strings.HasSuffix)
}

const wildcards = `*?[\`

// tail returns the literal end of a part.
func tail(part string) string { return part[strings.LastIndexAny(part, wildcards+"]")+1:] }

func endsMeet(a, b string, begins func(s, end string) bool) bool { return begins(a, b) || begins(b, a) }
