// Package notify sends notices to channels: the owner of a shard sends those of its incidents, at least once.
//
// A notice is pending until its channel has taken it (sent), will never take it (failed), or did not take it
// within a day (expired). Each call of a channel has 10 s. After a failed call the notice waits, from 5 s up
// to 15 min, and for as long as the channel asks. Each channel has a few calls at a time, and calls of its
// own goroutines, so a channel that hangs delays no other one.
//
// The end of a call is recorded after the call. If the process ends in between, or another node has taken the
// shard, the notice is sent again under the same id.
package notify
