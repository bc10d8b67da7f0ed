//go:build linux

package nettest

import (
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// echo starts a server on a machine that sends back the bytes that it receives.
func echo(t *testing.T, on *Machine) (address string) {
	t.Helper()
	var l net.Listener
	err := on.Do(func() (err error) {
		l, err = net.Listen("tcp", on.Addr+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

// says writes a word and reads it back.
func says(c net.Conn, word string) error {
	if _, err := io.WriteString(c, word); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len(word)))
	return err
}

// TestLinks sends over a connection while its links are delayed, lossy and cut in one direction. The
// connection survives, and all bytes arrive.
func TestLinks(t *testing.T) {
	lan := Start(t)
	a, b := lan.Add(t), lan.Add(t)
	address := echo(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := a.Dial(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := says(c, "at once"); err != nil {
		t.Fatal(err)
	}
	const delay = 20 * time.Millisecond
	lan.Set(a, b, Link{Delay: delay})
	began := time.Now()
	if err := says(c, "late"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("a packet that takes %v has taken %v", delay, took)
	}
	lan.Between(a, b, Link{Loss: 0.3})
	if err := says(c, strings.Repeat("lossy", 20_000)); err != nil {
		t.Fatal(err)
	}
	if _, lost := lan.Count(); lost == 0 {
		t.Error("nothing was lost")
	}
	for _, way := range [][2]*Machine{{a, b}, {b, a}} {
		lan.Between(a, b, Link{})
		lan.Set(way[0], way[1], Link{Cut: true})
		_ = c.SetDeadline(time.Now().Add(300 * time.Millisecond))
		var slow net.Error
		if err := says(c, "cut"); !errors.As(err, &slow) || !slow.Timeout() {
			t.Fatalf("over a cut link: %v", err)
		}
		_ = c.SetDeadline(time.Time{})
		lan.Everywhere(Link{})
		if _, err := io.ReadFull(c, make([]byte, len("cut"))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAbleTogether: tests that run in parallel find out at once whether this machine can make namespaces.
func TestAbleTogether(t *testing.T) {
	Start(t)
	var tries sync.WaitGroup
	for range 8 {
		tries.Go(func() {
			if err := able(); err != nil {
				t.Error(err)
			}
		})
	}
	tries.Wait()
}

// TestMachine: a command runs in the namespace of its machine and has only the address of this machine. No
// machine can reach the host.
func TestMachine(t *testing.T) {
	lan := Start(t)
	m := lan.Add(t)
	cmd := exec.Command("ip", "-brief", "-4", "address")
	m.Enter(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 2 || !strings.Contains(string(out), m.Addr+"/24") {
		t.Errorf("%s, %v", out, err)
	}
	if err := m.Do(func() error { return exec.Command("ip", "route", "get", "192.0.2.1").Run() }); err == nil {
		t.Error("a machine has a way to other networks")
	}
}
