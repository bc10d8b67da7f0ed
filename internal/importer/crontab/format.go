package crontab

import (
	"fmt"
	"strings"
)

// Format is the form of the lines of a crontab.
type Format string

// The formats.
const (
	Auto    Format = "auto"    // determined from the path, else from the lines
	User    Format = "user"    // time, command: the output of crontab -l
	System  Format = "system"  // time, user, command: /etc/crontab and /etc/cron.d
	Anacron Format = "anacron" // period, delay, name, command: /etc/anacrontab
)

// Formats returns the values of Options.Format.
func Formats() []string {
	return []string{string(Auto), string(User), string(System), string(Anacron)}
}

// format determines the format of a crontab, and returns it with the reason for the choice.
func (c *converter) format(lines []line) (Format, string, error) {
	switch f := c.opt.Format; f {
	case User, System, Anacron:
		return f, "as asked", nil
	case Auto, "":
	default:
		return "", "", c.fail(1, fmt.Sprintf("the format %q does not exist", f), "formats: "+strings.Join(Formats(), ", "))
	}
	if f, why := formatOfPath(c.opt.Path); f != Auto {
		return f, why, nil
	}
	f, why := c.formatOfLines(lines)
	return f, why, nil
}

// formatOfPath determines the format from the paths that cron uses.
func formatOfPath(path string) (Format, string) {
	parts := strings.Split(path, "/")
	base, folder := parts[len(parts)-1], ""
	if len(parts) > 1 {
		folder = parts[len(parts)-2]
	}
	switch {
	case base == "anacrontab":
		return Anacron, "the file has the name anacrontab"
	case folder == "cron.d":
		return System, "the file is in a folder cron.d"
	case base == "crontab" && folder == "etc":
		return System, "the file is the crontab of a system"
	case folder == "crontabs" || strings.HasSuffix(path, "/spool/cron/"+base):
		return User, "the file is in the folder where cron keeps the crontabs of users"
	}
	return Auto, ""
}

// looksMax bounds the number of entries that formatOfLines examines.
const looksMax = 1000

// formatOfLines determines the format from the entries. A system crontab has a user before every command.
// In a user's crontab some commands may begin with the name of a user (mail, backup), but rarely all of
// them.
func (c *converter) formatOfLines(lines []line) (Format, string) {
	entries, users, sure := 0, 0, 0
	for i := range lines {
		l := &lines[i]
		if k, _ := l.kind(); k != entryLine {
			continue
		}
		if _, f := parseAnacron(l); f == nil && l.text[l.begin()] != '@' && !startsAsCron(l) {
			return Anacron, fmt.Sprintf("line %d has period, delay and a name", l.number)
		}
		word, more := sixth(l)
		if word == "" {
			continue
		}
		if entries++; entries > looksMax {
			break
		}
		if more && c.isUser(word) {
			users++
			if !contains(programs(), word) {
				sure++
			}
		}
	}
	switch {
	case entries == 0:
		return User, "no entry shows the format"
	case users == entries && sure > 0:
		return System, "every entry names a user before its command"
	case users > 0:
		return User, fmt.Sprintf("not every entry names a user before its command; %d of %d do", users, entries)
	}
	return User, "no entry names a user before its command"
}

// startsAsCron reports whether the first fields can be time fields of cron.
func startsAsCron(l *line) bool {
	e := &entry{line: l}
	_, f := e.takeFields(l.begin())
	return f == nil
}

// sixth returns the word after the time fields, and whether more follows it.
func sixth(l *line) (word string, more bool) {
	i := l.begin()
	if l.text[i] == '-' {
		i = skip(l.text, i+1)
	}
	fields := 5
	if i < len(l.text) && l.text[i] == '@' {
		fields = 1
	}
	for range fields {
		i = skip(l.text, wordEnd(l.text, i))
	}
	end := wordEnd(l.text, i)
	return l.text[i:end], skip(l.text, end) < len(l.text)
}

func (c *converter) isUser(name string) bool {
	return contains(accounts(), name) || c.opt.IsUser != nil && c.opt.IsUser(name)
}

// accounts returns the users that every system has.
func accounts() []string {
	return []string{"root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data", "backup",
		"list", "irc", "nobody", "_apt", "postgres", "mysql", "smmsp", "munin", "logcheck", "amavis", "Debian-exim", "apache", "nginx"}
}

// programs returns the names that belong to a user and to a program.
func programs() []string {
	return []string{"sync", "games", "man", "lp", "mail", "news", "backup", "list", "git", "munin", "logcheck"}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
