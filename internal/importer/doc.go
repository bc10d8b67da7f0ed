// Package importer holds what the importers of other schedulers' files share. The importers are the packages
// below it: crontab, dagu, argo and dolphin.
//
//   - report.go: the outcome of each line ([Result]), which `skein import` prints.
//   - draft.go, write.go, yaml.go: a workflow under construction ([Draft]), its file, and a check that
//     Skein's own reader reads the file back with the same meaning.
//   - sheet.go: one document of a file, with its report. [Sheet.Rest] drops and reports the fields that no
//     importer reads.
//   - text.go, shell.go, code.go: texts that hold references to values. A reference becomes a variable of
//     the task, so that no value can become code.
//   - names.go: names that are valid in a workflow file.
package importer
