package threads

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const childVar = "SKEIN_TEST_CALM"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) == "" {
		os.Exit(m.Run())
	}
	if err := child(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// TestCalm checks that a program that called Calm has found the monitor thread, and that the processes it
// starts have the slack that the program was born with.
func TestCalm(t *testing.T) {
	probe := exec.Command(os.Args[0])
	probe.Env = append(os.Environ(), childVar+"=1")
	out, err := probe.CombinedOutput()
	switch {
	case strings.Contains(string(out), "operation not permitted"):
		t.Skipf("another thread's slack may not be changed here: %s", out)
	case err != nil:
		t.Fatalf("%v: %s", err, out)
	}
}

// child keeps threads inside the kernel until one of them proves to be the monitor: no other thread ever
// sleeps by nanosleep.
func child() error {
	before := born
	if err := Calm(); err != nil {
		return err
	}
	monitor, err := second()
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = unix.Poll(nil, 1)
				}
			}
		})
	}
	for began := time.Now(); ; {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", monitor))
		if err != nil {
			return err
		}
		if strings.HasPrefix(string(text), strconv.Itoa(unix.SYS_NANOSLEEP)+" ") {
			break
		}
		if time.Since(began) > 20*time.Second {
			return fmt.Errorf("the second thread never sleeps as the monitor does: %s", text)
		}
	}
	defer wg.Wait()
	defer close(stop)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			Unchanged()
			out, err := exec.Command("cat", "/proc/self/timerslack_ns").Output()
			if is := strings.TrimSpace(string(out)); err == nil && is != strconv.Itoa(before) {
				err = fmt.Errorf("a child has a slack of %s ns, its parent was born with %d", is, before)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}
