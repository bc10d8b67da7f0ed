// Package sealed keeps the secrets of namespaces: sealed in the store, with a key that is in a file.
//
// A secret is sealed with a key of its own, and that key with the key of the file. The name and the
// version of the secret are part of the seal, so a row cannot take the place of another one. The store has
// the id of the present key, so a node with another key notices the difference at once, and changes nothing.
package sealed
