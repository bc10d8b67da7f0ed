//go:build !plus

package stamp

// Inside is true if this program was built with the tag plus, so it has the clients of skein-plus itself.
const Inside = false
