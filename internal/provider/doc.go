// Package provider reads the secrets of tasks. They are sealed in the database, or come from files,
// environment variables, programs and Vault, as the operators of a node have configured.
//
// A provider is outside of Skein. It may hang, return wrong data or not answer, and that must delay only the
// attempts that need it. So every call has a time limit, concurrent reads of one secret share a call, and
// each provider has few concurrent calls. After a failed call, further calls fail at once for a short time.
// Values are kept only in memory.
package provider
