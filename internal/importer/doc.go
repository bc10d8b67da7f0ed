// Package importer holds what the importers of other schedulers' files share. The importers are the packages
// below it: crontab, dagu and argo.
//
//   - report.go: what became of each line ([Result]), which `skein import` prints.
//   - draft.go, write.go, yaml.go: a workflow under construction ([Draft]), its file, and a check that
//     Skein's own reader reads the file back as it was meant.
//   - sheet.go: one document of a file with its report. Fields that no importer reads are dropped, and each
//     is reported ([Sheet.Rest]).
//   - text.go, shell.go, code.go: texts that hold references to values. They come out as
//     variables of the task, so that no value can become code.
//   - names.go: names that a workflow file takes.
package importer
