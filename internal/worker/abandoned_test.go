//go:build linux

package worker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAbandonedKeeper checks that a keeper that waits for the lock ends when its starter is gone. It must not
// kill the holder of the lock, because that may be the keeper of the next server.
func TestAbandonedKeeper(t *testing.T) {
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command("sleep", "600") // plays the keeper of the next server
	holder.Env = []string{keeperVar + "=" + data}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = holder.Wait()
	}()
	defer func() {
		_ = holder.Process.Kill()
		<-ended
	}()
	lock, err := os.Create(filepath.Join(data, "work", keeperLock))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.WriteString(`{"pid":` + strconv.Itoa(holder.Process.Pid) + "}\n"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	its := os.NewFile(uintptr(fds[1]), "keeper")
	keeper := exec.Command("/proc/self/exe", "keeper", data)
	keeper.Env = append(os.Environ(), keeperVar+"="+data)
	keeper.ExtraFiles = []*os.File{its}
	err = keeper.Start()
	_ = its.Close()
	_ = unix.Close(fds[0]) // the starter is gone
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Wait(); err != nil {
		t.Errorf("the abandoned keeper: %v", err)
	}
	select {
	case <-ended:
		t.Error("the abandoned keeper killed the holder of the lock")
	default:
	}
}
