// Package crontab turns crontabs into workflows: one workflow file for each line that runs
// something, and a report that says of every line what became of it.
//
//   - crontab.go: [Convert], what goes in and what comes out.
//   - lines.go, format.go: the text as cron reads it: comments, variables, entries; and which
//     of the three formats it has.
//   - fields.go, when.go: the five time fields, held to what cron accepts, and the trigger
//     that fires at the same instants, clock changes included.
//   - command.go, shell.go: % and standard input, SHELL, and tests in front of a command that
//     would make a run fail which for cron was only quiet.
//   - anacron.go: the entries of an anacrontab.
//   - name.go: what a person would call it. yaml.go, render.go: the file.
//
// The meaning is that of Debian's cron (Vixie cron 3.0pl1) with the extensions of cronie:
// CRON_TZ, RANDOM_DELAY, 0~59, and - in front. Where the two differ the report says so.
//
// Nothing is ever dropped without a line in the report, and what does not come back from
// the workflow parser as it went in is not handed out.
package crontab
