// Package notify sends notices to channels, at least once. The owner of a shard sends the notices of the
// shard's incidents.
//
// A notice is pending until its channel has accepted it (sent), has refused it for ever (failed), or has not
// accepted it within a day (expired). Each call of a channel may take 10 s. After a failed call, the notice
// waits for 5 s, and up to 15 min after further failures, or for the time that the channel requests. Each
// channel has a few calls at a time, in goroutines of its own, so a channel that hangs delays no other
// channel.
//
// The result of a call is recorded after the call. If the process ends in between, or another node has taken
// over the shard, the notice is sent again with the same id.
package notify
