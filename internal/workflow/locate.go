package workflow

import "skein.dev/skein/internal/dag"

// Locate is where a value stands in the first document of a file, from 1: that below the keys of a path, or as far as they
// lead. 1:1 is the whole file.
func Locate(src []byte, path ...string) (line, column int) {
	line, column = 1, 1
	s, ok := newSource(src, "")
	if !ok {
		return line, column
	}
	s.tasksMax = dag.TasksMax
	docs := s.documents()
	if len(docs) == 0 {
		return line, column
	}
	for n := s.parse(docs[0]); len(path) > 0; path = path[1:] {
		if n = n.get(path[0]); n == nil {
			break
		}
		line, column = int(n.line), int(n.col)
	}
	return line, column
}
