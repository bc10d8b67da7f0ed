package nettest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports of FreePort are below those that the kernel gives to connections and to listeners without a port
// of their own.
const portMin, portMax = 12000, 30000

var (
	portsMu sync.Mutex
	given   = map[int]bool{}
)

// FreePort returns a port of 127.0.0.1 for a server that a test starts. A port from the kernel could go to
// another test before the server listens, or while the server is down. One process never gets the same port
// twice.
func FreePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range portMax - portMin {
		port := portMin + rand.IntN(portMax-portMin)
		if given[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		given[port] = true
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port of 127.0.0.1 from %d to %d is free", portMin, portMax-1)
}
