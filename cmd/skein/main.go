// Command skein runs graphs of tasks: see `skein help`.
package main

import (
	"os"
)

func main() {
	os.Exit(run(os.Args[1:]))
}
