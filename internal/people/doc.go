// Package people keeps the passwords of people, and checks them.
//
// Passwords.Verify is the whole sign-in by name and password: it bounds what guesses cost, takes the same
// time whether a name is known or not, and says the same whatever is wrong. A password is nowhere kept,
// logged or part of an error; its argon2id hash is kept as PHC text.
//
//   - verify.go: the check of a password, and the hash of a new one.
//   - hash.go: the hash and its parameters.
//   - weak.go: which passwords are refused.
//   - tries.go: how many guesses a name and an address have.
//
// worst.txt has the 10,000 most frequent passwords of the frequency list of zxcvbn 4.4.2 (MIT licence,
// Copyright 2012-2016 Dan Wheeler and Dropbox, Inc.), and those of its other entries that have at least 12
// characters.
package people
