// Package workflow is the workflow file: YAML in, a checked definition out.
//
// What a reader should know, in this order:
//
//   - workflow.go: the definition as it is stored with a version ([Workflow]).
//   - grammar*.go: every key of the file in one table, with its description, its shape
//     and, where a feature is still to come, the sentence that refuses it. Both the
//     checker and the JSON Schema are made from that table, so they cannot disagree.
//   - source.go, chunk.go, tree.go: from bytes to nodes with positions. The file is
//     bounded before anything recursive sees it.
//   - check.go, decode*.go: from nodes to a definition, all errors at once.
//   - expr*.go, refs.go: `${{ … }}` and `if`, in CEL, type-checked against the declared
//     parameters and outputs.
//   - params.go, outputs.go, resolve.go: what is evaluated when a run starts, when a task
//     ends and when an attempt is dispatched.
//   - files.go: the files that travel with a version.
package workflow
