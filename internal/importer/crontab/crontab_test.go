package crontab

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

var update = flag.Bool("update", false, "write testdata/golden")

// ada returns options for Ada, the user of these tests.
func ada(path string) Options {
	return Options{Path: path, Zone: "Europe/Berlin", User: "ada", Home: "/home/ada"}
}

func converted(t *testing.T, src string, opt Options) *importer.Result {
	t.Helper()
	r, err := Convert([]byte(src), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// only returns the one workflow of a crontab.
func only(t *testing.T, src string, opt Options) *workflow.Workflow {
	t.Helper()
	r := converted(t, src, opt)
	if len(r.Workflows) != 1 {
		t.Fatalf("%d workflows of %q, report: %+v", len(r.Workflows), src, r.Lines)
	}
	return parsed(t, r.Workflows[0].Source)
}

func parsed(t *testing.T, source string) *workflow.Workflow {
	t.Helper()
	all, faults := workflow.Parse([]byte(source), workflow.Options{})
	if err := faults.Err(); err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return all[0]
}

// TestGolden converts the crontabs that Debian's packages install, and one with every feature.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/etc/cron.d/*")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "testdata/etc/crontab", "testdata/etc/anacrontab", "testdata/user.crontab")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := shown(converted(t, string(src), ada(strings.TrimPrefix(file, "testdata"))))
			golden := filepath.Join("testdata", "golden", filepath.Base(file)+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("it is not %s any more; it is now:\n%s", golden, got)
			}
		})
	}
}

func shown(r *importer.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, because %s; %s\n", r.File, r.Format, r.Because, r.Timezone)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	for _, l := range r.Lines {
		fmt.Fprintf(&b, "%d:%d %s %s %s\n", l.Line, l.Column, l.Kind, l.Outcome, l.Workflow)
		for _, n := range l.Notes {
			fmt.Fprintf(&b, "    %s\n", n)
		}
	}
	for _, w := range r.Workflows {
		fmt.Fprintf(&b, "---\n%s", w.Source)
	}
	return b.String()
}

func TestVariableLines(t *testing.T) {
	for _, c := range []struct {
		line        string
		name, value string // name is "" if the line is not a variable
	}{
		{"A=b", "A", "b"},
		{"A = b c  ", "A", "b c"},
		{"\tA\t=\tb", "A", "b"},
		{`A="b "`, "A", "b "},
		{`A=' b"c '`, "A", ` b"c `},
		{`"A"=b`, "A", "b"},
		{`A=""`, "A", ""},
		{"A=", "A", ""},
		{`A="b" `, "A", "b"},
		{`A="b" c`, "", ""},
		{`A="b`, "", ""},
		{`A=b"c"`, "A", `b"c"`},
		{`A=b # no comment`, "A", "b # no comment"},
		{`A=$HOME/x`, "A", "$HOME/x"},
		{"* * * * * A=b", "", ""},
		{"@daily A=b", "", ""},
		{"A b=c", "", ""},
		{`"A=B"=c`, "", ""},
	} {
		l := line{1, c.line}
		kind, v := l.kind()
		if (kind == variableLine) != (c.name != "") || v != nil && (v.name != c.name || v.value != c.value) {
			t.Errorf("%q: %v %+v", c.line, kind, v)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, c := range []struct {
		text, command, input string
		has                  bool
	}{
		{"date +%F", "date +", "F", true},
		{`date +\%F`, "date +%F", "", false},
		{`a%b%%c\%d%`, "a", "b\n\nc%d\n", true},
		{"a%", "a", "", true},
		{`a \\% b`, `a \\`, " b", true},
		{`a\nb`, `a\nb`, "", false},
		{`a\`, `a\`, "", false},
		{`a%b\\%c\`, "a", `b\%c\`, true},
		{`a%b\n`, "a", `b\n`, true},
	} {
		command, input, has := percent(c.text)
		if command != c.command || input != c.input || has != c.has {
			t.Errorf("%q: %q %q %v", c.text, command, input, has)
		}
	}
}

// TestFaults checks place, reason and remedy of lines that cannot be converted.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		line   string
		column int
		says   string
	}{
		{"60 * * * * a", 1, "minute: 60 is out of range; write a value from 0 to 59"},
		{"* 24 * * * a", 3, "hour: 24 is out of range"},
		{"* * 0 * * a", 5, "day of month: 0 is out of range"},
		{"* * * 1,13 * a", 9, "month: 13 is out of range"},
		{"* * * * 8 a", 9, "day of week: 8 is out of range"},
		{"1,,2 * * * * a", 3, "a value is missing"},
		{"5/10 * * * * a", 1, "write 5-59/10"},
		{"*/0 * * * * a", 3, `"0" is not a step`},
		{"*/x * * * * a", 3, `"x" is not a step`},
		{"*5 * * * * a", 1, "write * or */N"},
		{"? * * * * a", 1, "write *"},
		{"* * L * * a", 5, `"L" is not a value`},
		{"* * * * 5#3 a", 9, `"5#3" is not a value`},
		{"* 22-2 * * * a", 3, "write 22-23,0-2"},
		{"* * * january * a", 7, "write jan"},
		{"ü * * * * a", 1, `"ü" is not a value`},
		{"* * * * ü a", 9, `"ü" is not a value`},
		{"* * 31 feb * a", 1, "February never has a 31st"},
		{"* * * * *", 10, "the line has no command"},
		{"* * *", 6, "the line has only 3 fields"},
		{"@weekdays a", 1, "cron does not know"},
		{"@every_minute a", 1, "write * * * * *"},
		{"@DAILY a", 1, "write @daily"},
		{"0 1 * * * %a", 11, `write \% for a percent sign`},
		{"0 1 * * * a\xff", 1, "is not UTF-8"},
		{"99999999999999999999 * * * * a", 1, "is not a value"},
	} {
		r := converted(t, c.line+"\n", Options{Format: User})
		if len(r.Lines) != 1 || r.Lines[0].Outcome != importer.Dropped || r.Lines[0].Column != c.column || !strings.Contains(r.Lines[0].Notes[0], c.says) {
			t.Errorf("%q: %+v", c.line, r.Lines)
		}
	}
	for _, line := range []string{"* * * * * root", "* * * * *", "@daily root"} {
		if r := converted(t, line+"\n", Options{Format: System}); r.Lines[0].Outcome != importer.Dropped {
			t.Errorf("%q: %+v", line, r.Lines)
		}
	}
}

func TestNoCrontab(t *testing.T) {
	huge := strings.Repeat("# x\n", BytesMax/4+1)
	for _, c := range []struct{ src, says string }{
		{huge, "larger than 1 MiB"},
		{"\x7fELF\x02\x01\x01\x00\x00", "not a crontab"},
		{"a\n\x00", "not a crontab"},
		{strings.Repeat("\xfe\x80 ", 100), "not a crontab"},
		{"\xff\xfe*", "UTF-16"},
		{strings.Repeat("@daily a\n", EntriesMax+1), "more than 10000 entries"},
		{strings.Repeat("A"+strings.Repeat("b", 200_000)+"=x\nB="+strings.Repeat("b", 200_000)+"\n", 1) + strings.Repeat("@daily a\n", 500), "larger than 16 MiB"},
	} {
		_, err := Convert([]byte(c.src), Options{})
		var faults workflow.Errors
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.says) || faults[0].Hint == "" {
			t.Errorf("%.20q: %v", c.src, err)
		}
	}
	if _, err := Convert(nil, Options{Zone: "Mars"}); err == nil {
		t.Error("a zone that does not exist")
	}
	if _, err := Convert(nil, Options{Format: "quartz"}); err == nil {
		t.Error("a format that does not exist")
	}
	if r := converted(t, "", Options{}); len(r.Lines) != 0 {
		t.Error(r.Lines)
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		path, src string
		want      Format
	}{
		{"/etc/crontab", "", System},
		{"/mnt/etc/cron.d/x", "0 1 * * * a b", System},
		{"/var/spool/cron/crontabs/ada", "0 1 * * * root a", User},
		{"/var/spool/cron/root", "0 1 * * * root a", User},
		{"/etc/anacrontab", "", Anacron},
		{"-", "0 1 * * * root a\n@daily www-data b c\n", System},
		{"-", "0 1 * * * root a\n@daily /bin/b c\n", User},
		{"-", "0 1 * * * root\n", User},
		{"-", "0 1 * * * mail -s a b\n", User},
		{"-", "0 1 * * * mail -s a b\n0 2 * * * sync now\n", User},
		{"-", "0 1 * * * mail a\n0 2 * * * root sync\n", System},
		{"-", "0 1 * * * bob a\n", System},
		{"-", "0 1 * * * eve a\n", User},
		{"-", "1 5 cron.daily run-parts /etc/cron.daily\n", Anacron},
		{"-", "@daily 7 zip it\n", User},
		{"-", "A=b\n\n# 0 1 * * * root a\n", User},
		{"-", "- 0 1 * * * root a\n", System},
	} {
		r := converted(t, c.src+"\n", Options{Path: c.path, IsUser: func(name string) bool { return name == "bob" }})
		if r.Format != string(c.want) || r.Because == "" {
			t.Errorf("%s %q: %s, because %s", c.path, c.src, r.Format, r.Because)
		}
	}
}

func TestNames(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/local/bin/backup.sh --all":                                                                          "backup",
		"cd / && run-parts --report /etc/cron.hourly":                                                             "run-parts-cron-hourly",
		"test -x /usr/sbin/anacron || { cd / && run-parts /etc/cron.daily; }":                                     "run-parts-cron-daily",
		"[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi": "sessionclean",
		"command -v debian-sa1 > /dev/null && debian-sa1 1 1":                                                     "debian-sa1",
		"perl -e 'sleep int(rand(43200))' && certbot -q renew":                                                    "certbot-renew",
		"su - bob -c '/opt/app/run.sh nightly'":                                                                   "run-nightly",
		"bash -c 'cd /x; ./go.py'":                                                                                "go",
		"/usr/bin/php /var/www/artisan schedule:run >> /dev/null 2>&1":                                            "artisan-schedule-run",
		"sudo -u www-data php8.2 -f /x/cron.php":                                                                  "cron",
		"flock -n /tmp/l timeout 10m nice -n 10 python3 -m reports.daily":                                         "reports-daily",
		"A=b C=d ionice -c3 rsync -a /a /b":                                                                       "rsync",
		"java -Xmx1g -jar /opt/app.jar":                                                                           "app",
		"echo hello":                                                                                              "echo-hello",
		"list":                                                                                                    "cron-list",
		"'":                                                                                                       "cron-line-3",
		"日本語":                                                                                                     "cron-line-3",
		"(sleep 5; /x/sync_all)":                                                                                  "sync-all",
		"for f in a b; do /x/one $f; done":                                                                        "one",
		strings.Repeat("x", 300):                                                                                  strings.Repeat("x", slugMax),
		`bash -c "bash -c \"bash -c a\""`:                                                                         "a",
	} {
		if got := nameOf(command, 3); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	r := converted(t, "@daily a\n@daily a\n@daily a-2\n@daily a\n@daily A\n", Options{Format: User})
	var names []string
	for _, w := range r.Workflows {
		names = append(names, w.Name)
	}
	if want := []string{"a", "a-2", "a-2-2", "a-3", "a-4"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestEnvironment checks that each line sees the variables above it.
func TestEnvironment(t *testing.T) {
	src := "A=1\nMAILTO=x\n@hourly one\nA=2\nB='${{ x }}'\nHOME=/srv\nSHELL=/bin/bash\n@hourly two $MAILTO $USER\n"
	r := converted(t, src, Options{Format: User, User: "ada", Home: "/home/ada"})
	one, two := parsed(t, r.Workflows[0].Source), parsed(t, r.Workflows[1].Source)
	if want := []workflow.KV{{Name: "A", Value: "1"}}; !slices.Equal(one.Env, want) || one.Tasks[0].Dir != "/home/ada" {
		t.Errorf("%+v", one)
	}
	want := []workflow.KV{{Name: "A", Value: "2"}, {Name: "MAILTO", Value: "x"}, {Name: "B", Value: `${{ "${{" }} x }}`}, {Name: "HOME", Value: "/srv"},
		{Name: "SHELL", Value: "/bin/bash"}, {Name: "USER", Value: "ada"}}
	slices.SortFunc(want, func(a, b workflow.KV) int { return strings.Compare(a.Name, b.Name) })
	got := slices.Clone(two.Env)
	slices.SortFunc(got, func(a, b workflow.KV) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(got, want) || two.Tasks[0].Dir != "/srv" {
		t.Errorf("%+v", two)
	}
	if want := []string{"/bin/bash", "-c", "two $MAILTO $USER"}; !slices.Equal(two.Tasks[0].Run.Argv, want) {
		t.Errorf("%+v", two.Tasks[0].Run)
	}
	// Cron calls /bin/sh, whatever PATH says. A node searches PATH for sh.
	if w := only(t, "PATH=/opt/bin\n@hourly a\n", Options{Format: User}); !slices.Equal(w.Tasks[0].Run.Argv, []string{"/bin/sh", "-c", "a"}) {
		t.Errorf("%+v", w.Tasks[0].Run)
	}
}

func TestRemarks(t *testing.T) {
	for _, c := range []struct{ path, src, says string }{
		{"-", "@daily a", "no line end"},
		{"-", "@daily a\r\n", "Windows"},
		{"/etc/cron.d/a.dpkg-dist", "@daily root a\n", "does not read files with such a name"},
	} {
		r := converted(t, c.src, Options{Path: c.path})
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], c.says) || len(r.Workflows) != 1 {
			t.Errorf("%q: %q", c.src, r.Notes)
		}
	}
	if r := converted(t, "@daily root a\n", Options{Path: "/etc/cron.d/a_b-C1"}); len(r.Notes) != 0 {
		t.Error(r.Notes)
	}
}
