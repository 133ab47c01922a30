// Package stats counts what happens, per minute, for every endpoint, tenant and
// the system: which counters there are, how they are added up, packed into a few
// bytes, and read back as a series.
//
// It is pure: it knows no clock, no store and no network. The store writes a Log in
// the commit that it counts, and adds up logs a little later.
package stats
