//go:build plus

package main

import "skein.dev/skein/plus/clients"

// plusMain runs a client of a broker, as the program skein-plus does.
var plusMain = clients.Main
