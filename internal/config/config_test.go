package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestNoPasswordIsShown: whatever a setting db contains, neither the settings nor an error show its password.
func TestNoPasswordIsShown(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for db, shown := range map[string]string{
		"postgres://ada:s3cret@db:5432/skein?sslmode=disable":  "postgres://ada:xxxxx@db:5432/skein?sslmode=disable",
		"postgresql://ada@db/skein?password=s3cret":            "postgresql://ada@db/skein?password=xxxxx",
		"postgres://db/skein?sslpassword=s3cret&sslkey=/k.pem": "postgres://db/skein?sslkey=%2Fk.pem&sslpassword=xxxxx",
		"sqlite:/tmp/a@b.db":                                   "sqlite:/tmp/a@b.db",
		"":                                                     "",
		"postgers://ada:s3cret@db/skein":                       "",
		"host=db password=s3cret":                              "",
		"postgres://ada:s3cret@db:port/skein":                  "",
		"postgres://ada:s3cret%zz@db/skein":                    "",
	} {
		c, err := Load(map[string]string{"db": db, "api-token": "s3cret"}, "")
		if text := fmt.Sprint(err); strings.Contains(text, "s3cret") {
			t.Errorf("%s: the error says %s", db, text)
		}
		if err != nil {
			if shown != "" || db == "" {
				t.Errorf("%s: %v", db, err)
			}
			continue
		}
		for _, v := range c.Values {
			if v.Name == "db" && v.Value != shown {
				t.Errorf("%s is shown as %s", db, v.Value)
			}
			if strings.Contains(v.Value, "s3cret") {
				t.Errorf("%s shows %s", v.Name, v.Value)
			}
		}
	}
}

// TestSpansGoTogether: times are refused with which a healthy cluster would declare its nodes dead, or end
// its attempts.
func TestSpansGoTogether(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const db = "postgres://db/skein"
	for _, c := range []struct {
		flags map[string]string
		says  string
	}{
		{map[string]string{"db": db}, ""},
		{map[string]string{"db": db, "heartbeat": "1s", "lag": "4s"}, ""},
		{map[string]string{"db": db, "lag": "10s"}, "setting lag (flag --lag): 10s is shorter than 4 heartbeats of 5s: set it to at least 20s, or heartbeat to at most 2s500ms"},
		{map[string]string{"db": db, "heartbeat": "10s", "lag": "1m"}, "setting lease (default): 15s is shorter than 3 heartbeats of 10s: set it to at least 30s, or heartbeat to at most 5s"},
		{map[string]string{"db": db, "lease": "5s"}, "setting lease (flag --lease): 5s is shorter"},
		{map[string]string{"lease": "1s"}, ""}, // the lease of a node on SQLite does not depend on heartbeats
		// A node on SQLite has a lag for its workers.
		{map[string]string{"lag": "1s"}, "setting lag (flag --lag): 1s is shorter than 4 heartbeats of 5s"},
	} {
		_, err := Load(c.flags, "")
		if text := fmt.Sprint(err); (err == nil) != (c.says == "") || !strings.Contains(text, c.says) && c.says != "" {
			t.Errorf("%v: %s", c.flags, text)
		}
		var setting *SettingError
		if err != nil && !errors.As(err, &setting) {
			t.Errorf("%v: an error of type %T", c.flags, err)
		}
	}
}

// TestReachable: a node of a cluster that listens on all addresses is refused unless it advertises an
// address, because the other nodes could not reach it.
func TestReachable(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		host string
		ok   bool
	}{
		{Config{Listen: ":8080"}, "", true},
		{Config{Listen: ":8080", Postgres: "postgres://db"}, "", false},
		{Config{Listen: "0.0.0.0:8080", Postgres: "postgres://db"}, "0.0.0.0", false},
		{Config{Listen: "[::]:8080", Postgres: "postgres://db"}, "::", false},
		{Config{Listen: "[::]:8080", Postgres: "postgres://db", Advertise: "http://n1:8080"}, "::", true},
		{Config{Listen: "127.0.0.1:0", Postgres: "postgres://db"}, "127.0.0.1", true},
		{Config{Listen: "localhost:0", Postgres: "postgres://db"}, "localhost", true},
	} {
		err := c.cfg.reachable(c.host)
		if (err == nil) != c.ok || err != nil && (!errors.As(err, new(*SettingError)) || !strings.Contains(err.Error(), "--advertise")) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
