package importer

import (
	"slices"
	"strings"
	"testing"
)

func TestWrites(t *testing.T) {
	for script, want := range map[string]string{
		"/opt/backup.sh >> /var/log/backup.log 2>&1":   "/var/log/backup.log",
		"a >/var/a;b 2>/var/b&c &>/var/c | d >|/var/d": "/var/a /var/b /var/c /var/d",
		"a > /var/x/../a\nb >/var/a":                   "/var/a",
		"(a; b)>/srv/out":                              "/srv/out",
		"a >file; b > ../file; c >&2; d >/dev/null":    "",
		"a > /made":                               "", // the folder would be /
		"a > /var/$X; b > /var/*.log":             "",
		"a > '/var/a'; b > \"/var/b\"":            "",
		"echo '> /var/a' \"> /var/b\" \\> /var/c": "",
		"# a > /var/a\nb # > /var/b":              "",
		"a <<END >/var/a\n> /var/b\nEND":          "",
		"echo $(a > /var/a) > /var/b":             "",
		"echo \"$(a > /var/a)\"":                  "",
		"a >/var/a; [[ b > /var/b ]]":             "/var/a",
		"a >":                                     "",
		"echo \"it's\" > /var/a":                  "/var/a",
	} {
		if got := writes(script); strings.Join(got, " ") != want {
			t.Errorf("%q writes %q, want %q", script, got, want)
		}
	}
	if got := WriteNote("a >/srv/etl/a; b >/srv/b; c >/srv/c >/var/c", "/srv/etl"); got != "the command writes /srv/b, /srv/c, /var/c; at the isolation level fence, the default, the task needs access: {write: [/srv, /var]}" {
		t.Error(got)
	}
	if got := WriteNote("a >/srv/etl/a", "/srv/etl/"); got != "" {
		t.Error(got)
	}
	many := strings.Repeat("a >/srv/x/a ", 3)
	for _, c := range "bcdefgh" {
		many += " >/srv/x/" + string(c)
	}
	if got := WriteNote(many, ""); strings.Count(got, "/srv/x/") != writesMax || !slices.Contains(writes(many), "/srv/x/h") {
		t.Error(got)
	}
}

// FuzzWrites checks that no script makes writes panic, and that it returns only absolute paths of the script.
func FuzzWrites(f *testing.F) {
	f.Add("a >/var/a 2>&1 '\\\" $( `")
	f.Fuzz(func(t *testing.T, script string) {
		for _, file := range writes(script) {
			if !strings.HasPrefix(file, "/") {
				t.Errorf("%q", file)
			}
		}
	})
}
