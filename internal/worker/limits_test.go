package worker

import (
	"os"
	"testing"
)

// TestLimitsOfATree: what a cgroup is told when limits change, and what it is asked. A plain folder
// stands in for the cgroup: not every machine has the controllers.
func TestLimitsOfATree(t *testing.T) {
	c := &cgroupTree{dir: t.TempDir()}
	read := func(name string) string {
		text, err := os.ReadFile(c.dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if !c.limit(0, 0) {
		t.Error("no limit is one that cannot be set")
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) > 0 {
		t.Errorf("an attempt without limits wrote %v (%v)", entries, err)
	}
	if !c.limit(2500, 64<<20) || read("cpu.max") != "250000 100000" || read("memory.max") != "67108864" || read("memory.swap.max") != "0" {
		t.Errorf("cpu.max %q, memory.max %q", read("cpu.max"), read("memory.max"))
	}
	if !c.limit(1, 0) || read("cpu.max") != "1000 100000" || read("memory.max") != "max" || read("memory.swap.max") != "max" {
		t.Errorf("lifted: cpu.max %q, memory.max %q", read("cpu.max"), read("memory.max"))
	}
	if c.starved() != 0 {
		t.Error("starved without memory.events")
	}
	if err := os.WriteFile(c.dir+"/memory.events", []byte("low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.starved(); got != 3 {
		t.Errorf("%d kills for memory, want 3", got)
	}
	c.dir += "/gone"
	if c.limit(5, 5) {
		t.Error("limits were set in a cgroup that is not there")
	}
	if Cores() < 1 || Memory() < 1 {
		t.Errorf("this machine has %d thousandths of a core and %d bytes", Cores(), Memory())
	}
}
