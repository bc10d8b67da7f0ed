//go:build !linux

package program

// Memory returns 0: the memory of a program is known on Linux only.
func (s *Stream) Memory() (bytes int64) { return 0 }
