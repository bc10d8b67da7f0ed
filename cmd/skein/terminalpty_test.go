//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onTerminal calls the program with a terminal as its output, and returns what reached the terminal.
func (w *world) onTerminal(args ...string) string {
	w.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	mode.Oflag &^= unix.OPOST // line feeds stay as they are
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		w.t.Fatal(err)
	}
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = slave, slave
	cmd.Env = append(cmd.Env, "TERM=xterm", "CI=1") // with colours, and without the live part
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	_ = slave.Close()
	text, _ := io.ReadAll(master) // the read ends with an error when the last process has closed the terminal
	_ = cmd.Wait()                // the exit code of some of these commands depends on the end of the run
	return string(text)
}

// TestTextOfOthersOnATerminal prints what a task, a workflow file and a person wrote, by every command that shows it.
func TestTextOfOthersOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const evil, yaml = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[3A", `\e]52;c;ZXZpbA==\a\e[2J\e[3A\u009b2J`
	file := w.write("evil.yaml", `name: evil
description: "`+yaml+` description"
params: {p: {type: string, default: "`+yaml+`"}}
tasks:
  a:
    run: |
      printf '\033]52;c;ZXZpbA==\007\033[2J\033[3A\033[31mred\033[0m printed\n'
      printf 'o=\033]52;c;ZXZpbA==\007\033[2J\n' > "$SKEIN_OUTPUT"
    outputs: {o: string}
  b: {needs: a, run: sleep 600}
`)
	seen := map[string]string{}
	show := func(args ...string) {
		t.Helper()
		text := w.onTerminal(args...)
		seen[strings.Join(args, " ")] = text
		if !onlyText.MatchString(text) {
			t.Errorf("skein %q writes %q", args, text)
		}
		if text == "" {
			t.Errorf("skein %q writes nothing", args)
		}
	}
	w.server()
	show("run", file, "--detach")
	w.eventually("the first task has ended", func() bool {
		return strings.Contains(w.skein("task", "get", "evil@latest/a", "-o", "json").out, `"succeeded"`)
	})
	show("explain", "evil@latest")
	show("run", "stop", "evil@latest", "--reason", evil+"reason")
	for _, args := range [][]string{{"logs", "evil@latest/a"}, {"logs", "evil@latest"}, {"logs", "evil@latest", "-f"}, {"run", "get", "evil@latest"}, {"run", "list"},
		{"run", "events", "evil@latest"}, {"task", "get", "evil@latest/a"}, {"workflow", "get", "evil"}, {"workflow", "list"}, {"run", "watch", "evil@latest"},
		{"explain", "evil@latest"}, {"queue", "list"}, {"run", "get", "evil@latest", "-o", "yaml"}, {"run", "get", evil + "@latest"}} {
		show(args...)
	}
	if text := seen["logs evil@latest/a"]; !strings.Contains(text, "\x1b[31mred\x1b[0m printed") {
		t.Errorf("the log on a terminal: %q", text)
	}
	if text := w.onTerminal("logs", "evil@latest/a", "--raw"); !strings.Contains(text, evil) {
		t.Errorf("with --raw: %q", text)
	}
	if o := w.skein("logs", "evil@latest/a"); !strings.Contains(o.out, evil) {
		t.Errorf("in a pipe: %q", o.out)
	}
}
