package crontab

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"skein.dev/skein/internal/importer"
	"skein.dev/skein/internal/workflow"
)

// output runs a program as a node and as cron would. It returns the standard output, and whether the
// program succeeded.
func output(t *testing.T, argv []string, input string, env []workflow.KV) (string, bool) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	for _, kv := range env {
		cmd.Env = append(cmd.Env, kv.Name+"="+strings.ReplaceAll(kv.Value, `${{ "${{" }}`, "${{"))
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	return out.String(), err == nil
}

func argvOf(run workflow.Run) []string {
	if run.Shell != "" {
		return []string{"sh", "-c", run.Shell}
	}
	return run.Argv
}

// TestSameOutput runs commands as cron does, with sh -c and input through a pipe, and as they were
// converted. It compares the outputs.
func TestSameOutput(t *testing.T) {
	for _, line := range []string{
		`cat%one%two`,
		`cat; echo between; cat%one%two%`,
		`read a; read b; echo "$b $a"%one%two%three`,
		`cat -%INPUT%INPUT_2%x`,
		`cat%%%`,
		`cat%Iü%Eü%Dü%Tü%Lü%Oü%Sü%Qü%Xü%Zü%$x $(y) \z`,
		`cat%üINPUT%INPUTü%INPUT`,
		`cat%a\%b\\c\`,
		`cat % $HOME "$(echo no)" 'x' \t`,
		`wc -l%` + strings.Repeat("line%", 5000),
		`echo a && exit 3%unused`,
		`echo 'a: "b" # c'	"tab	here" \`,
		`echo \\ \a '\%' "$(echo "x\%")"`,
		`echo '${{ x }}' '${{'%y`,
		`cat; echo '${{'%y${{z}}`,
		`test -x /bin/sh && echo there`,
		`test -x /nowhere && echo there`,
		`[ -d / ] && [ -x /bin/sh ] && echo a && echo b`,
		`command -v sh > /dev/null && sh -c 'echo in; cat'%from%input`,
		`command -v no-such-program > /dev/null 2>&1 && echo never`,
		`test -x /nowhere && echo a || echo b`,
		`test -x /nowhere && echo a; echo b`,
		`test -x /nowhere || { cd / && echo c; }`,
		`[ -x /bin/sh ] && if [ ! -d /nowhere ]; then echo d; fi`,
		`if [ -x /bin/sh ] && [ $(echo 08) -le 9 ]; then echo e; fi`,
		`test a = b && echo x | cat`,
		`! test a = b && echo not`,
		`(exit 2) && echo x`,
		`echo "unbalanced`,
		`echo x # comment && y`,
		`case a in a) echo case;; esac`,
		`echo 日本語 ü '“”'`,
		"printf 'a\\tb\\001\\n'",
	} {
		for _, shell := range []string{"", "SHELL=/bin/bash\n", "SHELL=/usr/bin/env\n"} {
			if shell != "" && (exec.Command("/bin/bash", "-c", ":").Run() != nil || strings.HasSuffix(shell, "env\n")) {
				continue
			}
			r := converted(t, shell+"0 1 * * * "+line+"\n", Options{Format: User})
			if len(r.Workflows) != 1 {
				t.Errorf("%q: %+v", line, r.Lines)
				continue
			}
			w := parsed(t, r.Workflows[0].Source)
			command, input, _ := percent(line)
			if input != "" && !strings.HasSuffix(input, "\n") {
				input += "\n" // cron adds it
			}
			program := "/bin/sh"
			if shell != "" {
				program = "/bin/bash"
			}
			want, wantOK := output(t, []string{program, "-c", command}, input, nil)
			got, ok := output(t, argvOf(w.Tasks[0].Run), "", w.Env)
			guarded := slices.ContainsFunc(r.Lines[len(r.Lines)-1].Notes, func(n string) bool { return strings.Contains(n, "the run succeeds; cron ignored exit codes") })
			if got != want || ok != wantOK && !guarded || !ok && wantOK {
				t.Errorf("%q in %s gives %q (%v), cron %q (%v)\n%s", line, program, got, ok, want, wantOK, r.Workflows[0].Source)
			}
		}
	}
}

// TestOtherShells checks that a command for a shell other than sh is not changed.
func TestOtherShells(t *testing.T) {
	r := converted(t, "SHELL=/usr/bin/fish\n@daily test -x a && it's\n@daily cat it's%in\n", Options{Format: User})
	if run := parsed(t, r.Workflows[0].Source).Tasks[0].Run; !slices.Equal(run.Argv, []string{"/usr/bin/fish", "-c", "test -x a && it's"}) {
		t.Errorf("%+v", run)
	}
	want := "exec <<'INPUT'\nin\nINPUT\nexec /usr/bin/fish -c 'cat it'\\''s'"
	if run := parsed(t, r.Workflows[1].Source).Tasks[0].Run; run.Shell != want {
		t.Errorf("%q", run.Shell)
	}
}

// TestRandomCommands checks that Skein reads back each converted command with the same meaning, and that its
// input arrives byte for byte.
func TestRandomCommands(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 13))
	pieces := []string{"a", "b ", "%", `\`, `\%`, "'", `"`, "$", "${{", "}}", ": ", " #", "#", "-", "\t", "&&", "||", ";", "|", "ü", "Ё", "あ", "€", "INPUT", "INPUTü", "\u2028", "\x01", "[", "{", "*", "?", "!", "INPUT", "\u00a0", "0x1", "null", "~", "@", "`", ">"}
	for range 1000 {
		var b strings.Builder
		for range 1 + rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		text := "cat" + []string{" ", "%"}[rng.IntN(2)] + b.String()
		r := converted(t, "0 1 * * * "+text+"\n", Options{Format: User})
		if len(r.Workflows) != 1 {
			t.Fatalf("%q: %+v", text, r.Lines)
		}
		run := parsed(t, r.Workflows[0].Source).Tasks[0].Run
		command, input, _ := percent(text)
		if command != "cat" || strings.Contains(input, "${{") {
			continue
		}
		if input != "" && !strings.HasSuffix(input, "\n") {
			input += "\n"
		}
		if got, _ := output(t, argvOf(run), "", nil); got != input {
			t.Fatalf("%q: input %q arrives as %q\n%s", text, input, got, r.Workflows[0].Source)
		}
	}
}

// FuzzConvert checks that every error of Convert has a reason, and that every result is sound.
func FuzzConvert(f *testing.F) {
	f.Add("0 1 * * * a%b\n")
	f.Add("A='b'\nSHELL=/bin/bash\n*/5 1-23/2 1,2 jan-mar mon root [ -x a ] && b \\% ${{ c\n")
	f.Add("CRON_TZ=Asia/Tokyo\nRANDOM_DELAY=5\n@daily x\n~ * * * * y\n")
	f.Add("1 5 cron.daily nice run-parts /etc/cron.daily\n")
	f.Add("@reboot (a; {b `c` \"$(d 'e')\"})\r\n- 1 2 3 4 5 if x; then y; fi")
	f.Fuzz(func(t *testing.T, src string) {
		r, err := Convert([]byte(src), Options{Home: "/h", User: "u"})
		if err != nil {
			return
		}
		made, last := 0, 0
		for _, l := range r.Lines {
			if l.Line <= last || l.Column < 1 || l.Outcome == importer.Dropped && (len(l.Notes) == 0 || l.Workflow != "") {
				t.Fatalf("%+v", l)
			}
			if last = l.Line; l.Workflow != "" {
				made++
			}
		}
		names := map[string]bool{}
		for _, w := range r.Workflows {
			all, faults := workflow.Parse([]byte(w.Source), workflow.Options{})
			if len(faults) > 0 || len(all) != 1 || all[0].Name != w.Name || names[w.Name] {
				t.Fatalf("%v\n%s", faults.Err(), w.Source)
			}
			names[w.Name] = true
		}
		if made != len(r.Workflows) {
			t.Fatalf("%d lines are converted, there are %d workflows", made, len(r.Workflows))
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	src := []byte(strings.Repeat("*/5 1-4 * * * test -x /usr/bin/x && /usr/bin/x --report | mail -s \"it's\" root\n", 1000))
	for b.Loop() {
		if r, err := Convert(src, Options{Zone: "Europe/Berlin"}); err != nil || len(r.Workflows) != 1000 {
			b.Fatal(err)
		}
	}
}
