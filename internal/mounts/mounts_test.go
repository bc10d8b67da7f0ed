package mounts

import (
	"errors"
	"testing"
)

const table = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,errors=remount-ro
30 22 0:26 /sub /sys/fs/cgroup/memory rw shared:9 master:1 - cgroup cgroup rw,memory,hugetlb
31 22 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
32 22 0:28 / /srv/of\040another\134disk rw - tmpfs tmpfs rw
short line
33 22 0:29 / /cut rw - ext4
`

func TestParse(t *testing.T) {
	all := parse(table)
	if len(all) != 4 {
		t.Fatalf("%d mounts: %+v", len(all), all)
	}
	memory := all[1]
	if memory.Kind != "cgroup" || !memory.Has("memory") || memory.Has("pids") {
		t.Errorf("%+v", memory)
	}
	if at := all[3].Point; at != `/srv/of another\disk` {
		t.Error(at)
	}
	for _, c := range []struct {
		path, at string
		shown    bool
	}{
		{"/sub", "/sys/fs/cgroup/memory", true},
		{"/sub/service", "/sys/fs/cgroup/memory/service", true},
		{"/other", "", false},
		{"/submarine", "", false},
		{"relative", "", false},
	} {
		if at, shown := memory.At(c.path); at != c.at || shown != c.shown {
			t.Errorf("%s: %q, %v", c.path, at, shown)
		}
	}
}

func TestGroup(t *testing.T) {
	const groups = "4:memory,pids:/a:b\n1:name=systemd:/init\n0::/user.slice\n"
	for controller, want := range map[string]string{"pids": "/a:b", "memory": "/a:b", "": "/user.slice"} {
		if at, err := group(groups, controller); err != nil || at != want {
			t.Errorf("%q: %q, %v", controller, at, err)
		}
	}
	if _, err := group(groups, "cpu"); !errors.Is(err, ErrNoGroup) {
		t.Error(err)
	}
}
