// Package workflow reads workflow files: it turns YAML into a checked definition.
//
// Read in this order:
//
//   - workflow.go: the definition as it is stored with a version ([Workflow]).
//   - grammar*.go, later.go: every key of the file in one table, with its description, its
//     shape and, for a coming feature, the sentence that refuses it. Both the
//     checker (shape.go) and the JSON Schema (schema.go) are made from that table, so they
//     cannot disagree.
//   - source.go, chunk.go, tree.go, anchor.go, jsontree.go: from bytes to nodes with
//     positions. The file is bounded before anything recursive sees it.
//   - parse.go, read*.go, check_trigger.go: from nodes to a definition, all errors at once.
//   - trigger*.go: a trigger as it is stored, its name, its words and its instants.
//   - expr.go, exprwalk.go, refs.go, template.go: ${{ … }} and if, in CEL, type-checked
//     against the declared parameters and outputs.
//   - condition.go, params.go, start.go, resolve.go: the expressions that are evaluated when a
//     task's needs have ended, when a run starts (by hand or by a trigger), and when an attempt
//     is dispatched.
//   - files.go: the files that travel with a version.
//   - value_file.go: YAML of other grammars, within the same bounds, for imports.
//
// An expression may read only the outputs of tasks that have certainly ended: the needs of its task, direct
// or not. If the task can run after a failure, the expression may read only the task's direct needs.
package workflow
