package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// settlePages unmaps the pages of the program's file that the process has mapped so far. The system maps
// pages again when they are used, from its cache of files. Half of the pages are only used by the start. The
// kernel also maps the pages around each used one.
func settlePages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range cleanMappings(string(smaps), program) {
		// An error means that the pages stay mapped.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// cleanMappings returns the mappings of a file that nothing can write and that are equal to the file. A
// mapping with anonymous pages differs from the file: a debugger or the dynamic linker has changed it.
func cleanMappings(smaps, file string) (all []mapping) {
	var m mapping
	for line := range strings.Lines(smaps) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, to, header := strings.Cut(name, "-")
		switch {
		case header:
			m = mapping{}
			if flags, _, _ := strings.Cut(value, " "); strings.HasSuffix(value, " "+file) && !strings.Contains(flags, "w") {
				m = mapping{address(from), address(to)}
			}
		case name == "Anonymous:" && strings.TrimSpace(value) == "0 kB" && m.from < m.to:
			all = append(all, m)
		}
	}
	return all
}

// address reads an address in smaps. It returns 0 for anything else.
func address(s string) uintptr {
	n, _ := strconv.ParseUint(s, 16, strconv.IntSize)
	return uintptr(n)
}
