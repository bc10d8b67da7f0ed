// Package crontab converts crontabs to workflows: one workflow file for each line that runs a command. A
// report gives the outcome of every line.
//
//   - crontab.go: [Convert], its input and its result.
//   - lines.go, format.go: comments, variables and entries, as cron reads them, and the format of the file.
//   - fields.go, when.go: the five time fields, limited to what cron accepts, and the trigger with the
//     same instants, clock changes included.
//   - command.go, shell.go: % and standard input, SHELL, and tests before a command. A failed test is
//     quiet for cron, but it would make a run fail.
//   - anacron.go: the entries of an anacrontab.
//   - name.go: names of workflows; render.go: the file.
//
// The meaning is that of Debian's cron (Vixie cron 3.0pl1) with the extensions of cronie: CRON_TZ,
// RANDOM_DELAY, 0~59, and - in front. The report names the lines where the two differ.
//
// The report names everything that is dropped. A workflow that the workflow parser does not read back as it
// was written is not returned.
package crontab
