package workflow

import "skein.dev/skein/internal/dag"

// Locate returns the line and column of a value in a file, from 1. place counts the workflows of the file
// from 0. If only a part of path exists, Locate returns the position of that part. 1:1 stands for the whole
// file.
func Locate(src []byte, place int, path ...string) (line, column int) {
	line, column = 1, 1
	s, ok := newSource(src, "")
	if !ok {
		return line, column
	}
	s.tasksMax = dag.TasksMax
	for _, d := range s.documents() {
		n := s.parse(d)
		if n == nil { // the file contains only comments
			continue
		}
		if place--; place >= 0 {
			continue
		}
		line, column = d.line, 1
		for ; len(path) > 0; path = path[1:] {
			if n = n.get(path[0]); n == nil {
				break
			}
			line, column = int(n.line), int(n.col)
		}
		break
	}
	return line, column
}
