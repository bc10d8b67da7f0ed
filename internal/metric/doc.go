// Package metric holds the numbers that a process counts in memory and shows to Prometheus.
//
// The catalogue lists every family with its meaning, unit and labels. Only a number of the catalogue can be
// shown, and docs/metrics.md is made from the catalogue. Label values are bounded: Top gives names of their
// own to the values that are used most, and counts the rest as "other".
package metric
