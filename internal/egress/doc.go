// Package egress makes the calls to addresses that people choose, such as the requests of tasks.
//
// The rules are checked for each address of a name, when a connection to it is made, and again for each
// redirect. So a name cannot pass the check with one address and then resolve to another. Three rules hold:
//
//   - No call reaches Skein itself: its nodes and its database. [Rules.Own] lists them.
//   - No call reaches the addresses at which clouds give credentials to a machine.
//   - Each of [Rules.Policies] allows or refuses every other address.
//
// A connection goes through a proxy only if [Rules.Proxy] says so. The proxy then resolves names, so Skein
// can only check the address of the proxy itself, and addresses that a request names literally.
package egress
