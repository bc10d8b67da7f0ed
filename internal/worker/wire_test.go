package worker

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestParcelSize checks that everything that can be large is counted, so that a message of several jobs stays
// below its bound.
func TestParcelSize(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	for name, p := range map[string]parcel{"env": {Job: Job{Env: []string{text}}}, "argv": {Job: Job{Argv: []string{text}}}, "secrets": {Job: Job{Secrets: []string{text}}},
		"body": {Job: Job{HTTP: &Request{Body: []byte(text)}}}, "header": {Job: Job{HTTP: &Request{Header: [][2]string{{"a", text}}}}},
		"code": {Job: Job{Script: &Script{Code: text}}}, "files": {Files: []File{{Content: []byte(text)}}}} {
		if p.size() < len(text) {
			t.Errorf("a job with a large %s counts as %d bytes", name, p.size())
		}
	}
}

// TestLargeMessages checks that all waiting ends arrive in one message, and that no reader accepts more than
// its bound.
func TestLargeMessages(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i := range ends {
		file := os.NewFile(uintptr(fds[i]), "end")
		conn, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		defer conn.Close()
		ends[i] = conn.(*net.UnixConn)
	}
	keeper, worker := newStream(ends[0], orderMax), newStream(ends[1], newsMax)
	large := make([]Result, 2)
	for i := range large {
		large[i].Message = strings.Repeat("x", orderMax/2+1)
	}
	sent := make(chan error, 1)
	go func() { sent <- keeper.write(&news{Welcome: &welcome{Ended: large}}) }()
	var got news
	if err := worker.read(&got); err != nil || got.Welcome == nil || len(got.Welcome.Ended) != 2 || len(got.Welcome.Ended[1].Message) != orderMax/2+1 {
		t.Errorf("a welcome of %d bytes: %v", orderMax+2, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	go func() { sent <- worker.write(&news{Results: large}) }()
	if err := keeper.read(&got); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a keeper takes a message of %d bytes: %v", orderMax+2, err)
	}
	_ = ends[0].Close()
	<-sent
}
