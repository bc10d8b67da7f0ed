package blobtest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestServerIsTied: the server of a test that is killed ends, too.
func TestServerIsTied(t *testing.T) {
	const childKey = "SKEIN_TEST_SERVES"
	if os.Getenv(childKey) != "" {
		_, _ = os.Stdout.WriteString("at " + Serve(t).Address + "\n")
		time.Sleep(time.Minute) // the parent kills this process
		return
	}
	if Program() == "" {
		Serve(t) // it skips the test, and says why
	}
	child := exec.Command(os.Args[0], "-test.run=^TestServerIsTied$", "-test.v")
	child.Env = append(os.Environ(), childKey+"=1", "TMPDIR="+t.TempDir())
	tie(child)
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		address, _ = strings.CutPrefix(lines.Text(), "at ")
		if address == lines.Text() {
			address = ""
		}
	}
	_ = child.Process.Kill()
	_ = child.Wait()
	if address == "" {
		t.Fatal("the child has started no server")
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		if time.Since(began) > serverMax {
			t.Fatal("the server runs on without the test that started it")
		}
	}
}
