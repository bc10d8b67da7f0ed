// Package arch has no code except tests, which check the structure of the program: the allowed imports, the
// sizes of files, functions, interfaces and parameter lists, the functions that pure packages must not call,
// and the facts in docs/features.md.
//
// Editing a table here to make a build pass is a decision about the design and needs a
// record in docs/decisions.
package arch
