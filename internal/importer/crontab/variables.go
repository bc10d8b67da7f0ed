package crontab

import (
	"strings"

	"skein.dev/skein/internal/cron"
	"skein.dev/skein/internal/importer"
)

// setting is a variable, and the line that set it.
type setting struct {
	variable
	line int
}

// variables holds the variables that are set at a line of the file. Each line sees those above it.
type variables struct {
	list  []setting
	index map[string]int
}

func (v *variables) get(name string) *setting {
	if i, ok := v.index[name]; ok {
		return &v.list[i]
	}
	return nil
}

func (v *variables) set(s setting) {
	if v.index == nil {
		v.index = map[string]int{}
	}
	if i, ok := v.index[s.name]; ok {
		v.list[i] = s
		return
	}
	v.index[s.name] = len(v.list)
	v.list = append(v.list, s)
}

// value returns the value of a variable. If the variable is not set, it returns the text in otherwise.
func (v *variables) value(name, otherwise string) string {
	if s := v.get(name); s != nil {
		return s.value
	}
	return otherwise
}

// settings returns the names of the variables that cron itself uses. Commands need not see them.
func settings() []string {
	return []string{"CRON_TZ", "RANDOM_DELAY", "START_HOURS_RANGE", "SHELL", "HOME", "MAILTO", "MAILFROM", "CONTENT_TYPE",
		"CONTENT_TRANSFER_ENCODING", "NO_MAIL_OUTPUT", "MLS_LEVEL", "XDG_SESSION_CLASS", "PREFERRED_HOUR"}
}

// variable handles a line NAME=value.
func (c *converter) variable(l *line, v *variable) {
	o, note, keep := c.judge(v)
	if keep {
		c.vars.set(setting{*v, l.number})
	}
	c.report(l, o, "", []string{note})
}

// judge decides how a variable is converted. It returns the outcome, the reason, and whether the lines below
// see the variable.
func (c *converter) judge(v *variable) (o importer.Outcome, note string, keep bool) {
	switch v.name {
	case "MAILTO":
		if v.value == "" {
			return importer.Dropped, "the importer does not convert mail; Skein keeps the output of commands: skein logs NAME@latest", true
		}
		return importer.Dropped, "mail to " + quote(v.value) + " is not sent: Skein keeps the output of commands (skein logs NAME@latest); for notices write alerts: [{on: [failed], to: CHANNEL}]", true
	case "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "NO_MAIL_OUTPUT":
		return importer.Dropped, "the variable concerns only mail, and Skein sends no output by mail", true
	case "MLS_LEVEL", "XDG_SESSION_CLASS", "PREFERRED_HOUR":
		return importer.Dropped, "Skein has no such setting", true
	case "LOGNAME", "USER":
		return importer.Dropped, "cron does not let a crontab change it", false
	case "CRON_TZ":
		zone := strings.TrimPrefix(v.value, ":")
		if zone == "" {
			return importer.Converted, "the time zone of the lines below is " + c.opt.Zone + " again", true
		}
		if _, err := cron.LoadZone(zone); err != nil || strings.ContainsAny(zone, " ,.") {
			return importer.Dropped, quote(v.value) + " is not a time zone, so the lines below are dropped, too; write a name such as CRON_TZ=Europe/Berlin", true
		}
		return importer.Converted, "the time zone of the lines below", true
	case "TZ":
		if c.vars.value("CRON_TZ", c.opt.Zone) != v.value {
			return importer.Converted, "a variable of the commands below; as in cron, it does not change when they run (CRON_TZ does)", true
		}
	case "RANDOM_DELAY":
		n, ok := number(strings.TrimSpace(v.value))
		if !ok || n > randomDelayMax {
			return importer.Dropped, "the value is not a number of minutes from 0 to 1440, so cron ignores it", true
		}
		if n == 0 {
			return importer.Converted, "no delay", true
		}
		return importer.Approximated, "the delay becomes a minute of the hour where that is enough; see the lines below", true
	case "START_HOURS_RANGE":
		return importer.Approximated, "its first hour becomes the start of the lines below", true
	case "SHELL":
		if !strings.HasPrefix(v.value, "/") {
			return importer.Dropped, "the value is not an absolute path, so cron could run none of the lines below; the shell stays as it was", false
		}
		return importer.Converted, "the shell of the commands below", true
	case "HOME":
		if !strings.HasPrefix(v.value, "/") || !importer.PrintableText(v.value) {
			return importer.Dropped, "the value is not an absolute path", false
		}
		return importer.Converted, "the working folder of the commands below", true
	}
	switch {
	case !isName(v.name):
		return importer.Dropped, "the name " + quote(v.name) + " is not allowed for a variable of a task; use letters, digits and _", false
	case strings.HasPrefix(v.name, "SKEIN_"):
		return importer.Dropped, "names that begin with SKEIN_ are reserved; choose another name", false
	case !importer.PrintableText(v.value):
		return importer.Dropped, "the value contains control characters; set the variable in the command", false
	}
	if strings.Contains(v.value, "$") {
		return importer.Converted, "a variable of the commands below; as in cron, $ in its value has no special meaning", true
	}
	return importer.Converted, "a variable of the commands below", true
}

// isName reports whether a task may have a variable of this name.
func isName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// environment returns the variables that the entry's commands get in addition to those of the node.
func (c *converter) environment(d *draft) []variable {
	var env []variable
	for _, s := range c.vars.list {
		if !contains(settings(), s.name) || mentions(d.entry.command, s.name) && importer.PrintableText(s.value) {
			env = append(env, s.variable)
		}
	}
	own := func(name, value string) {
		if value != "" && !hasVariable(env, name) {
			env = append(env, variable{name, value})
		}
	}
	if sh := c.vars.get("SHELL"); sh != nil && sh.value != "/bin/sh" {
		own("SHELL", sh.value)
	}
	if home := c.vars.get("HOME"); home != nil {
		own("HOME", home.value)
	}
	for _, name := range []string{"LOGNAME", "USER"} {
		if mentions(d.entry.command, name) {
			own(name, firstOf(d.entry.user, c.opt.User))
		}
	}
	return env
}

func hasVariable(env []variable, name string) bool {
	for _, v := range env {
		if v.name == name {
			return true
		}
	}
	return false
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// mentions reports whether a command uses a variable.
func mentions(command, name string) bool {
	for rest := command; ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		before, after := rest[:i], rest[i+len(name):]
		if (strings.HasSuffix(before, "$") || strings.HasSuffix(before, "${")) && (after == "" || !isName("_"+after[:1])) {
			return true
		}
		rest = after
	}
}
