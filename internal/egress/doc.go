// Package egress makes the calls that Skein sends to addresses that people choose: requests of tasks, and
// later alerts.
//
// An address is checked when a connection to it is made: after its name was resolved, for each of its
// addresses, and again for each redirect. So a name that resolves to another address the second time
// changes nothing. Three rules hold:
//
//   - Skein itself is never called: its nodes, its database. [Rules.Own] names them.
//   - The addresses at which clouds give credentials to a machine are never called.
//   - Everything else is allowed or refused by each of [Rules.Policies].
//
// A connection goes through a proxy only if [Rules.Proxy] says so. The proxy then resolves names, so the
// check covers its own address and what the request names literally.
package egress
