// Package provider reads the secrets of tasks: those that are sealed in the database, and those of files,
// variables, programs and Vault, as the operators of a node have set it up.
//
// A provider is outside of Skein. It may hang, lie or be away, and that must delay only the attempts that
// need it. So every call has a bound, calls for one secret are shared, and the calls of one provider are few.
// After a failed call the next ones fail at once for a moment. Values are kept in memory only.
package provider
