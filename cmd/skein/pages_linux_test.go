package main

import (
	"os"
	"slices"
	"testing"
)

func TestCleanMappings(t *testing.T) {
	const smaps = `00400000-01a1b000 r-xp 00000000 fe:00 10258586                           /opt/my apps/skein
Rss:               19076 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
01a1b000-030c2000 r--p 0161b000 fe:00 10258586                           /opt/my apps/skein
Anonymous:             4 kB
030c2000-031b7000 rw-p 02cc2000 fe:00 10258586                           /opt/my apps/skein
Anonymous:             0 kB
7fc4f1196000-7fc4f12ec000 r-xp 00026000 fe:00 326269                     /usr/lib/libc.so.6
Anonymous:             0 kB
7fc4f12ec000-7fc4f12ed000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
`
	if got, want := cleanMappings(smaps, "/opt/my apps/skein"), []mapping{{0x400000, 0x1a1b000}}; !slices.Equal(got, want) {
		t.Errorf("clean mappings are %x, want %x", got, want)
	}
	if got := cleanMappings("ffff\n-\nz-1 r-xp /x\nAnonymous: 0 kB\nAnonymous:", "/x"); len(got) > 1 {
		t.Errorf("damaged text has mappings: %x", got)
	}
}

// TestSettlePages unmaps the pages of the running test, which then continues.
func TestSettlePages(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(cleanMappings(string(smaps), program)) == 0 {
		t.Error("the program has no mapping that can be unmapped")
	}
	settlePages()
}
