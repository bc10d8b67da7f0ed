// Package protect compares paths that people choose with the protected paths of a machine: its data folder,
// settings, keys and database.
package protect

import (
	"path/filepath"
	"strings"
)

// Holds reports whether a path is one of the protected paths, or is below one. Links are followed on both
// sides. The paths are absolute, and need not exist.
func Holds(path string, protected []string) bool {
	real := Real(path)
	for _, p := range protected {
		if rest, below := strings.CutPrefix(real, Real(p)); p != "" && below && (rest == "" || rest[0] == filepath.Separator) {
			return true
		}
	}
	return false
}

// Real follows the links of a path as far as the path exists. The rest may be made later.
func Real(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(Real(parent), filepath.Base(path))
	}
	return path
}
