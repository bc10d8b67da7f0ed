package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// stranger plays another process of the same user that speaks the keeper's protocol as well as a worker does.
// It tries to take the worker's place, to set the environment of tasks, and to kill attempts. It returns when
// the keeper has closed the connection or obeyed.
func stranger(t *testing.T, data string, show *os.File) (welcomed bool) {
	t.Helper()
	conn, err := viaFolder(filepath.Join(data, "work"), dial)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	s := newStream(conn, newsMax)
	if err := s.greet(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	s.wire.show = show
	if s.write(&order{Hello: &hello{Slots: 64, Base: []string{"PATH=" + os.Getenv("PATH"), "STOLEN=1"}}}) != nil {
		return false
	}
	var n news
	if s.read(&n) != nil || n.Welcome == nil {
		return false
	}
	_ = s.write(&order{Kill: true, End: true})
	_ = s.read(&n) // until the keeper has finished
	return true
}

// TestKeeperRefusesStrangers checks that a keeper obeys only the process that holds its data folder, even if
// another process knows the protocol. Running attempts continue, and tasks get the environment that the
// worker has set.
func TestKeeperRefusesStrangers(t *testing.T) {
	data := t.TempDir()
	b := newBond(t, data, time.Minute)
	b.Start(shell("held", 1, "touch "+data+"/on; until [ -e "+data+"/gate ]; do sleep 0.01; done"))
	b.appears(data + "/on")
	other := lockOf(t, t.TempDir())
	for name, show := range map[string]*os.File{"nothing": nil, "the lock, opened by itself": lockOf(t, data), "another folder's lock": other} {
		if stranger(t, data, show) {
			t.Errorf("a stranger that shows %s was welcomed", name)
		}
	}
	// Connections that send nothing do not block other callers.
	for range 3 * greetersMax {
		conn, err := viaFolder(filepath.Join(data, "work"), dial)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	b.Start(shell("env", 1, "echo stolen=$STOLEN >> $SKEIN_OUTPUT"))
	if r := b.result(); r.Key.Task != "env" || string(r.Outputs) != `{"stolen":""}` {
		t.Fatalf("after a stranger: %+v %s", r, r.Outputs)
	}
	// After the death of the worker, a stranger is still refused, and the next holder of the folder continues.
	b.crash()
	if stranger(t, data, nil) || stranger(t, data, other) {
		t.Error("a stranger was welcomed when the worker was dead")
	}
	b = newBond(t, data, time.Minute)
	if len(b.adopted.Running) != 1 {
		t.Fatalf("adopted %+v", b.adopted)
	}
	if err := os.WriteFile(data+"/gate", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.result(); r.Key.Task != "held" || r.State != Succeeded {
		t.Fatalf("what ran ended as %+v", r)
	}
}
