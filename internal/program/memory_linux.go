package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Memory returns the memory in bytes that the program and the processes that it has started take now. A
// process whose parent has ended does not count.
func (s *Stream) Memory() (bytes int64) {
	const processesMax = 1000
	if s.gone() {
		return 0 // another process may have its number now
	}
	all := []int{s.cmd.Process.Pid}
	for i := 0; i < len(all) && i < processesMax; i++ {
		bytes += resident(all[i])
		all = append(all, children(all[i])...)
	}
	return bytes
}

// resident returns the memory of a process, or 0 if the process has ended.
func resident(pid int) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// children returns the processes that a process has started.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/[0-9]*/children") // one for each thread
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range bytes.Fields(text) {
			if child, err := strconv.Atoi(string(field)); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
