// Package alert decides which channels are notified of which events: from rules, incidents and events it
// computes changed incidents and notices. It is pure: no I/O, no clock, no goroutine.
//
// A rule belongs to a workflow and watches some events. The first such event opens an incident, and further
// ones add to it. The next success of the workflow resolves it. The opening and the end of an incident are
// its transitions. Each transition has one notice for each channel of the rule. The engine writes the
// incident and the notices in the transaction of their cause, and package notify sends the notices.
package alert
