// Command skein-plus contains the clients of message brokers, which are large. A node finds it next to its
// own program. The node runs "skein-plus source NAME" for each trigger, and "skein-plus test TYPE" for each
// test of a connection.
package main

import (
	"os"

	"skein.dev/skein/plus/clients"
)

func main() { os.Exit(clients.Main(os.Args[1:])) }
