// Package registry reads from etcd or ZooKeeper which nodes of a cluster are alive. A registry can only make
// a node declare a silent member dead sooner. Everything else is decided in the database.
//
// # What a verdict is worth
//
// Each node keeps a session in the registry, under the UUID of its present life. A judge (judge.go) looks at
// the list of sessions twice a second. Three rules limit what the list can cause:
//
//   - The list alone deposes no member. The counter in the member's row must have stood still, too, for
//     Judge.Quick instead of the lag (package cluster). A member that has promised this in its row ends its
//     attempts within three quarters of that time. So a registry that lists no living member, or lists a dead
//     one, never makes an attempt run twice.
//   - A verdict is about a member that this node has seen in the list, in the same session of its own. A
//     registry that was restarted empty, or another registry, judges no member.
//   - A registry that does not answer, or does not list this node itself, judges no member. Then the lag of
//     the database decides.
//
// # Numbers, as parts of the time to live of a session (TTL, 4 s)
//
//	look   1/8   the list is read this often; the read is not older than its call
//	renew  1/4   the session is renewed this often
//	call   1/4   bound of one call
//	grace  1/4   a member must be missing for this long, over reads that succeeded
//	gap    1/2   after a longer time without an answer, earlier looks are ignored
//	quick  3/2   silence of a missing member's counter after which it counts as dead (Quick)
//
// If a node dies, its session ends after one TTL at the latest (ZooKeeper: up to one tick later), and its
// counter has stood still for 3/2 TTL shortly afterwards. So the others have its shards after about 7 s.
//
// # If the process dies
//
// The registry ends the session after the TTL. The next process of the node has another UUID, and so a
// session of its own.
//
// Reading order: registry.go (the contract), judge.go, settings.go, etcd.go, zookeeper.go, zooframe.go.
package registry
