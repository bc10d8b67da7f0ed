// Package stamp returns the version of the programs of Skein.
package stamp

import "runtime/debug"

// released is the version of a release. Its build sets it by the linker.
var released string

// Version returns the version of the release, or the one that the build recorded: a tag, or the commit.
func Version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	version := "dev"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			version += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			version += "+changes"
		}
	}
	return version
}

// Build returns the version of the release, or the commit. It is the same for all programs of one build,
// which can be in several modules. Build ignores changes that are not committed.
func Build() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "dev-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "dev"
}
