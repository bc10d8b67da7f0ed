package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestContainerMounts: no setting lets containers reach the data folder or another protected path.
func TestContainerMounts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SKEIN_DATA", filepath.Join(dir, "data"))
	t.Setenv("SKEIN_CONTAINER_MOUNTS", "data="+dir+"/srv, out="+dir+"/out:rw")
	c, err := Load(nil, "")
	if err != nil || len(c.Containers.Mounts) != 2 || !c.Containers.Mounts[1].Write || c.Containers.Mounts[0].Path != dir+"/srv" {
		t.Fatal(c, err)
	}
	for _, bad := range []string{"a=" + dir, "a=" + dir + "/data", "a=" + dir + "/data/work", "a=/etc", "a=/srv,a=/opt", "shop/a=/srv,shop/a=/opt", "shop/a=/etc", "a=srv", "/srv"} {
		t.Setenv("SKEIN_CONTAINER_MOUNTS", bad)
		var setting *SettingError
		if _, err := Load(nil, ""); !errors.As(err, &setting) || setting.Name != "container_mounts" {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link")),
		os.MkdirAll(filepath.Join(dir, "folder", "shop"), 0o700), os.Symlink("folder/shop", filepath.Join(dir, "srv-of-shop"))); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKEIN_DATA", filepath.Join(dir, "link"))
	for _, bad := range []string{"a=" + dir + "/real", "a=" + dir + "/out:rw,b=" + dir + "/out/in", "shop/a=" + dir + "/out:rw,web/a=" + dir + "/out/in",
		// one namespace would see the folder of another
		"all=" + dir + "/srv,shop/a=" + dir + "/srv/shop", "web/a=" + dir + "/srv,shop/a=" + dir + "/srv/shop", "shop/a=" + dir + "/srv/shop,all=" + dir + "/srv/shop/../../srv",
		"a=" + dir + "/out,shop/a=" + dir + "/out/in:rw", "all=" + dir + "/folder,shop/a=" + dir + "/srv-of-shop"} {
		t.Setenv("SKEIN_CONTAINER_MOUNTS", bad)
		if _, err := Load(nil, ""); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	t.Setenv("SKEIN_DATA", filepath.Join(dir, "real"))
	t.Setenv("SKEIN_CONTAINER_MOUNTS", "a="+dir+"/link/later")
	if _, err := Load(nil, ""); err == nil {
		t.Error("a folder is taken that will be in the data folder")
	}
	// A namespace may have two folders, one in the other, and a folder may be named for two namespaces.
	for _, good := range []string{"shop/all=" + dir + "/srv,shop/a=" + dir + "/srv/shop", "shop/a=" + dir + "/srv,web/a=" + dir + "/srv", "shop/a=" + dir + "/srv,a=" + dir + "/srv/data",
		"a=" + dir + "/srv,shop/a=" + dir + "/srv-of-shop"} {
		t.Setenv("SKEIN_CONTAINER_MOUNTS", good)
		if _, err := Load(nil, ""); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	t.Setenv("SKEIN_CONTAINER_MOUNTS", "")
	t.Setenv("SKEIN_CONTAINER_ENGINE", "tcp://127.0.0.1:2375")
	if _, err := Load(nil, ""); err == nil {
		t.Error("an engine on another machine is taken")
	}
}
