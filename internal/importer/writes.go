package importer

import (
	"path"
	"slices"
	"strings"
)

// writesMax bounds the paths that a note names.
const writesMax = 5

// WriteNote returns the note about the files outside of dir that a script for sh certainly writes, or "" if
// no such file is certain. Behind a fence, the default level of isolation, a task writes them only with
// access.
func WriteNote(script, dir string) string {
	files := writes(script)
	if path.IsAbs(dir) {
		files = slices.DeleteFunc(files, func(file string) bool { return strings.HasPrefix(file, path.Clean(dir)+"/") })
	}
	if len(files) == 0 {
		return ""
	}
	files = files[:min(len(files), writesMax)]
	var folders []string
	for _, file := range files {
		if folder := path.Dir(file); !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return "the command writes " + strings.Join(files, ", ") + "; at the isolation level fence, the default, the task needs access: {write: [" +
		strings.Join(folders, ", ") + "]}"
}

// writes returns the absolute paths to which redirections of a script for sh write, in their order. It reads
// only plain redirections outside of quotes and substitutions. It stops at syntax in which > may have another
// meaning.
func writes(script string) (files []string) {
	quote := byte(0)
	for i := 0; i < len(script); i++ {
		c := script[i]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
			}
		case c == '\\':
			i++
		case c == '"':
			quote ^= '"'
		case quote == '"' && c != '`' && !strings.HasPrefix(script[i:], "$("):
		case c == '\'':
			quote = c
		case c == '`', strings.HasPrefix(script[i:], "$("), strings.HasPrefix(script[i:], "<<"), strings.HasPrefix(script[i:], "(("), strings.HasPrefix(script[i:], "[["):
			return files
		case c == '#' && (i == 0 || strings.IndexByte(" \t\n;", script[i-1]) >= 0):
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case c == '>':
			rest := strings.TrimLeft(strings.TrimLeft(script[i+1:], ">|"), " \t")
			n := strings.IndexAny(rest, " \t\n;&|<>()")
			if n < 0 {
				n = len(rest)
			}
			if file := path.Clean(rest[:n]); written(rest[:n]) && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}

// written reports whether the word after a redirection is surely a file that the redirection changes.
func written(word string) bool {
	return path.IsAbs(word) && path.Dir(path.Clean(word)) != "/" && !strings.ContainsAny(word, "$`*?[]{}\"'\\~") && !strings.HasPrefix(word, "/dev/") && !strings.HasPrefix(word, "/proc/")
}
