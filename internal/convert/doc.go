// Package convert is what the imports of other schedulers' files have in common: crontab, and
// below here dagu and argo.
//
//   - report.go: what became of each line ([Result]), which `skein import` prints.
//   - draft.go, write.go, yaml.go: a workflow in the making ([Draft]), its file, and the proof
//     that Skein's own reader reads it as it was meant.
//   - sheet.go: one document of a file with its report; what nobody asked for is dropped with a
//     line ([Sheet.Rest]).
//   - text.go, shell.go, code.go: texts that hold references to values. They come out as
//     variables of the task, so that no value can become code.
//   - names.go: names that a workflow file takes.
package convert
