package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecretsFromFiles: the address of the database and the token come from files that a setting names, or
// that the service manager gives. If there are several, the nearest one takes precedence.
func TestSecretsFromFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const db, flagDB, envDB = "postgres://ada:s3cret@db/skein", "postgres://flag/skein", "postgres://env/skein"
	credentials := filepath.Dir(file("db", db))
	file("token", "skein_of_the_service")
	fileDB, token := file("other-db", "postgres://file/skein"), file("other-token", "skein_of_a_file")
	for name, c := range map[string]struct {
		env, flags map[string]string
		db, token  string
	}{
		"credentials": {map[string]string{"CREDENTIALS_DIRECTORY": credentials}, nil, db, "skein_of_the_service"},
		"a flag counts more than a credential": {map[string]string{"CREDENTIALS_DIRECTORY": credentials},
			map[string]string{"db": flagDB, "token-file": token}, flagDB, "skein_of_a_file"},
		"so do variables": {map[string]string{"CREDENTIALS_DIRECTORY": credentials, "SKEIN_DB": envDB, "SKEIN_API_TOKEN": "skein_said"}, nil, envDB, "skein_said"},
		"a file":          {map[string]string{"SKEIN_DB_FILE": fileDB, "SKEIN_TOKEN_FILE": token}, nil, "postgres://file/skein", "skein_of_a_file"},
		"a file counts more than a variable": {map[string]string{"SKEIN_DB_FILE": fileDB, "SKEIN_DB": envDB, "SKEIN_TOKEN_FILE": token, "SKEIN_API_TOKEN": "skein_said"}, nil,
			"postgres://file/skein", "skein_of_a_file"},
		"a flag counts more than a file in a variable": {map[string]string{"SKEIN_DB_FILE": fileDB}, map[string]string{"db": flagDB}, flagDB, ""},
		"a file in a flag counts more than a variable": {map[string]string{"SKEIN_DB": envDB}, map[string]string{"db-file": fileDB}, "postgres://file/skein", ""},
		"a relative folder is none":                    {map[string]string{"CREDENTIALS_DIRECTORY": "."}, nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			cfg, err := Load(c.flags, "")
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Postgres != c.db || cfg.APIToken != c.token {
				t.Errorf("database %s, token %s", cfg.Postgres, cfg.APIToken)
			}
			for _, v := range cfg.Values {
				if strings.Contains(v.Value, "s3cret") || strings.Contains(v.Value, "skein_of") {
					t.Errorf("%s shows %s", v.Name, v.Value)
				}
			}
		})
	}
}

// TestOpenSecretFiles: a file with a secret that others can read is refused with the command that closes it.
func TestOpenSecretFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "secret")
	for _, name := range []string{"token-file", "db-file"} {
		for _, mode := range []os.FileMode{0o644, 0o640, 0o620, 0o602} {
			if err := os.WriteFile(path, []byte("postgres://ada:s3cret@db/skein"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			_, err := Load(map[string]string{name: path}, "")
			if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("--%s of mode %o: %v", name, mode, err)
			}
		}
	}
}

// TestSecretsInMemory checks which parts of an environment and of arguments are overwritten.
func TestSecretsInMemory(t *testing.T) {
	cut := func(text string, spans []span) string {
		b := []byte(text)
		for _, s := range spans {
			for i := s.from; i < s.to; i++ {
				b[i] = '*'
			}
		}
		return string(b)
	}
	for text, want := range map[string]string{
		"PATH=/bin\x00SKEIN_DB=postgres://a:b@c/d\x00HOME=/\x00":    "PATH=/bin\x00SKEIN_DB=******************\x00HOME=/\x00",
		"SKEIN_API_TOKEN=t\x00PGPASSWORD=p":                         "SKEIN_API_TOKEN=*\x00PGPASSWORD=*",
		"https_proxy=http://a:b@p\x00NO_PROXY=n\x00HTTP_PROXY=h":    "https_proxy=************\x00NO_PROXY=n\x00HTTP_PROXY=*",
		"XSKEIN_DB=x\x00SKEIN_DB_FILE=/f\x00SKEIN_DB=\x00\x00":      "XSKEIN_DB=x\x00SKEIN_DB_FILE=/f\x00SKEIN_DB=\x00\x00",
		"SKEIN_DB=\x00\x00\x00\x00SKEIN_DATA=/d\x00SKEIN_DBX=y\x00": "SKEIN_DB=\x00\x00\x00\x00SKEIN_DATA=/d\x00SKEIN_DBX=y\x00",
	} {
		if got := cut(text, secretsIn([]byte(text))); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"skein\x00--db\x00postgres://ada:p@w@db:5432/s\x00":         "skein\x00--db\x00postgres://ada:***@db:5432/s\x00",
		"--db=postgresql://db/s?sslpassword=k&password=p\x00server": "--db=postgresql://db/s?sslpassword=*&password=*\x00server",
		"--db\x00postgres://ada@db:5432/s\x00-p\x00a=b@c\x00":       "--db\x00postgres://ada@db:5432/s\x00-p\x00a=b@c\x00",
		"--server\x00http://n1:8080/x?password=y\x00":               "--server\x00http://n1:8080/x?password=*\x00",
		"--egress-proxy=http://ada:p@w@proxy:3128\x00worker\x00":    "--egress-proxy=http://ada:***@proxy:3128\x00worker\x00",
		"--egress-proxy\x00https://:p@[::1]:3128/x:y@z\x00":         "--egress-proxy\x00https://:*@[::1]:3128/x:y@z\x00",
		"-p\x00url=postgres://db:5432/s\x00-p\x00mail=ada:x@db\x00": "-p\x00url=postgres://db:5432/s\x00-p\x00mail=ada:x@db\x00",
	} {
		if got := cut(text, passwordsIn([]byte(text))); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}
