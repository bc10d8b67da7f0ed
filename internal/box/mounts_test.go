//go:build linux

package box

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestLinksOfTasks checks the root of a box into which a task puts links while it is built. The init is root.
// It must make nothing in the folders that these links name, and mount nothing on them.
func TestLinksOfTasks(t *testing.T) {
	site, machine := t.TempDir(), t.TempDir()
	for _, path := range []string{site + "/srv/team", machine + "/cron"} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"evil": machine + "/cron", "up": "../../../../../../../.." + machine + "/cron"} {
		if err := os.Symlink(to, site+"/srv/team/"+name); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(site)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	linkAll(root, map[string]string{"/srv/team/evil/a": "/usr", "/srv/team/up/b": "/usr", "/bin": "/usr/bin", "/bin/c": "/usr", "/opt/x/y": "/usr"})
	for _, path := range []string{"srv/team/evil/d", "srv/team/up/e"} {
		if spot(root, path, true) == nil || spot(root, path, false) == nil {
			t.Errorf("%s was made", path)
		}
	}
	for _, path := range []string{"srv/team/evil", "srv/team/up", "bin"} {
		if fd, err := place(root, path); err == nil {
			t.Errorf("%s was opened", path)
			_ = unix.Close(fd)
		}
	}
	if made, _ := os.ReadDir(machine + "/cron"); len(made) != 0 {
		t.Errorf("%v was made on the machine", made)
	}
	for path, want := range map[string]string{"/bin": "/usr/bin", "/opt/x/y": "/usr"} {
		if to, err := os.Readlink(site + path); err != nil || to != want {
			t.Errorf("%s leads to %q, %v", path, to, err)
		}
	}
}

// TestOpensAsUser checks that the init takes no path into a box that the user of the box could not reach.
func TestOpensAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	base, err := os.MkdirTemp("/tmp", "skein-box-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	for path, mode := range map[string]os.FileMode{base: 0o755, base + "/closed": 0o700, base + "/closed/in": 0o755, base + "/open": 0o755} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(base+"/closed/in", base+"/link"); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread ends here
		s := Spec{UID: 1900000001}
		s.Fence.Read = []string{base + "/link", base + "/closed/in", base + "/open"}
		s.Fence.Own = []string{base + "/closed"}
		binds, _, err := s.binds()
		var got []string
		for _, b := range binds {
			got = append(got, strings.TrimPrefix(b.path, base))
			_ = unix.Close(b.from)
		}
		if want := "/open /closed"; err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		signal := unix.Signal(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0); errno != 0 || signal != unix.SIGKILL {
			t.Errorf("the signal of the parent's death is %d, %v", signal, errno)
		}
		if file, err := os.Open(base + "/closed/in"); err != nil {
			t.Error("the init has lost its rights:", err)
		} else {
			_ = file.Close()
		}
	}()
	<-done
}
