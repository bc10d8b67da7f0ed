//go:build unix

package artifact

import (
	"os"
	"syscall"
)

// ownedBy reports whether a file belongs to a user.
func ownedBy(info os.FileInfo, uid uint32) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == uid
}
