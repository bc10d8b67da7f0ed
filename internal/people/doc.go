// Package people keeps the passwords of people, and checks them.
//
// Passwords.Verify is the whole sign-in by name and password. It bounds the processor time that guesses can
// use. It takes the same time and returns the same error whether the name or the password is wrong. A
// password is never stored or logged, and is never part of an error. Only its argon2id hash is stored, as PHC
// text.
//
//   - verify.go: the check of a password, and the hash of a new one.
//   - hash.go: the hash and its parameters.
//   - weak.go: which passwords are refused.
//   - tries.go: how many guesses a name and an address have.
//
// worst.txt.gz has the 10,000 most frequent passwords of the frequency list of zxcvbn 4.4.2 (MIT licence,
// Copyright 2012-2016 Dan Wheeler and Dropbox, Inc.), and those of its other entries that have at least 12
// characters.
package people
