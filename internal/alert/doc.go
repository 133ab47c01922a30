// Package alert decides what people must be told: which rules there are, whether
// one of them is true of an endpoint, a tenant or the system, and who hears of it
// when.
//
// It has three parts. The table (Rules) says what every rule means, and settings,
// documentation and Prometheus rules are made from it. Judge compares a Reading
// with Thresholds and finds what is true now. A Board follows what was found from
// round to round: it opens, repeats, raises and resolves alerts, and says which
// notice goes over which channel.
//
// It is pure: values in, decisions out. It knows no clock, no store and no
// network. Whoever drives a board stores the rows it returns before sending the
// notices, so that another evaluator can go on from the rows at any moment without
// telling anything twice.
package alert
