// Package arch holds no code: its tests keep the shape of the house. Who may import whom,
// how large a file, a function, an interface or a parameter list may be, what the pure
// packages must not touch, and whether docs/features.md tells the truth.
//
// Editing a table here to make a build pass is a decision about the design and needs a
// record in docs/decisions.
package arch
