package dispatch

import (
	"testing"

	"skein.dev/skein/internal/store"
	"skein.dev/skein/internal/worker"
)

// TestObey: a task of a namespace with allowed paths names only these, in each of the ways in which a task
// can name files outside of its fresh folder. Paths in an allowed folder are refused, because tasks can make
// links there.
func TestObey(t *testing.T) {
	is := store.Namespace{Name: "shop", Isolation: "fence", Demands: store.Demands{AllowRead: "/opt/tools", AllowWrite: "/srv/shop"}}
	file := func(path string) *worker.Script { return &worker.Script{File: path} }
	for _, c := range []struct {
		name, origin, dir string
		job               worker.Job
		refused           bool
	}{
		{name: "nothing"},
		{name: "allowed", job: worker.Job{Access: &worker.Access{Read: []string{"/opt/tools/", "/srv/shop"}, Write: []string{"/srv/shop"}}}},
		{name: "another path", job: worker.Job{Access: &worker.Access{Read: []string{"/etc/shop"}}}, refused: true},
		{name: "a path in a folder", job: worker.Job{Access: &worker.Access{Read: []string{"/srv/shop/link"}}}, refused: true},
		{name: "a way out", job: worker.Job{Access: &worker.Access{Read: []string{"/opt/tools/../../etc"}}}, refused: true},
		{name: "read is no write", job: worker.Job{Access: &worker.Access{Write: []string{"/opt/tools"}}}, refused: true},
		{name: "its folder", dir: "/srv/shop"},
		{name: "another folder", dir: "/var/lib", refused: true},
		{name: "the folder of its file is replaced by a fresh one", origin: "/home/ann"},
		{name: "a folder out of that", origin: "/srv/shop", dir: "..", refused: true},
		{name: "a script of its version", job: worker.Job{Script: file("x.sh")}},
		{name: "an allowed script", job: worker.Job{Script: file("/opt/tools")}},
		{name: "another script", job: worker.Job{Script: file("/etc/x.sh")}, refused: true},
		{name: "a script in a folder that tasks change", dir: "/srv/shop", job: worker.Job{Script: file("x.sh")}, refused: true},
		{name: "folders of PATH of the system and allowed ones", job: worker.Job{Env: []string{"PATH=/opt/tools:/usr/local/bin:/bin:bin:"}}},
		{name: "another folder of PATH", job: worker.Job{Env: []string{"PATH=/usr/bin:/home/ann/bin"}}, refused: true},
		{name: "a folder out of the system", job: worker.Job{Env: []string{"PATH=/usr/../home/ann"}}, refused: true},
		{name: "a request", origin: "/home/ann", job: worker.Job{HTTP: &worker.Request{}}},
	} {
		err := obey(&c.job, &is, freshOrigin(&is, c.origin), c.dir)
		if c.refused != (err != nil) || err != nil && causeOf(err) != causeStart {
			t.Errorf("%s: %v, refused should be %t", c.name, err, c.refused)
		}
		if c.job.Isolation != "fence" {
			t.Errorf("%s: the level %q", c.name, c.job.Isolation)
		}
	}
	free := worker.Job{Isolation: "box", Access: &worker.Access{Read: []string{"/etc/shop"}}}
	if err := obey(&free, &store.Namespace{Isolation: "fence"}, freshOrigin(&store.Namespace{}, "/home/ann"), ""); err != nil || free.Isolation != "box" {
		t.Errorf("without allowed paths: %v, level %s", err, free.Isolation)
	}
}
