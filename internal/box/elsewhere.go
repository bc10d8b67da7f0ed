//go:build !linux

package box

import (
	"fmt"
	"os"
)

// Main refuses: this system has no namespaces.
func Main() int {
	fmt.Fprintln(os.Stderr, "skein box: this system runs no tasks")
	return 1
}
