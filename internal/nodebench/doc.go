// Package nodebench measures a whole node: real processes, and calls over its listener. It starts a node of
// its own and calls it as a client does. Package bench has the other measurements, and the limits of the
// machine.
package nodebench
