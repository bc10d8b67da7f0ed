// Package mounts reads the mounts and the control groups of this process, as Linux lists them in /proc/self.
package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Mount is a mounted file system or a folder of one, and the folder of this machine at which it is mounted.
type Mount struct {
	Root    string   // folder inside the file system; "/" for all of it
	Point   string   // folder of this machine
	Kind    string   // type, such as ext4 or cgroup2
	Options []string // options of the file system; for control groups of version 1, its controllers
}

// All returns the mounts of this process in the order of mounting.
func All() ([]Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parse(string(text)), nil
}

// parse reads lines like "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda rw,errors=continue".
// It leaves out lines of another form.
func parse(table string) (all []Mount) {
	escapes := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(table) {
		before, after, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) < 3 {
			continue
		}
		all = append(all, Mount{
			Root: escapes.Replace(fields[3]), Point: escapes.Replace(fields[4]),
			Kind: rest[0], Options: strings.Split(rest[2], ","),
		})
	}
	return all
}

// At returns the path on this machine of a path in the file system. It returns false if this mount does not
// show the latter.
func (m Mount) At(path string) (string, bool) {
	rel, err := filepath.Rel(m.Root, path)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.Join(m.Point, rel), true
}

// Has reports whether the file system has an option.
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// ErrNoGroup says that the kernel has no hierarchy of control groups for a controller.
var ErrNoGroup = errors.New("the kernel has no such hierarchy of control groups")

// Group returns the path of this process in a hierarchy of control groups. controller names a hierarchy of
// version 1, such as pids. If it is "", Group uses the only hierarchy of version 2.
func Group(controller string) (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return group(string(text), controller)
}

// group reads lines like "4:memory,pids:/path" and "0::/path".
func group(table, controller string) (string, error) {
	for line := range strings.Lines(table) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && slices.Contains(strings.Split(parts[1], ","), controller) {
			return parts[2], nil
		}
	}
	return "", ErrNoGroup
}
