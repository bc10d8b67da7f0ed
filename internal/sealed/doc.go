// Package sealed stores the secrets of namespaces. They are sealed in the store, and the key is in a file.
//
// Each secret is sealed with its own key, and that key is sealed with the key in the file. The seal includes
// the name and the version of the secret, so a row cannot replace another row. The store has the id of the
// present key, so a node with another key notices the difference at once, and changes nothing.
package sealed
