// Package uitest is a dashboard for tests: the real pages over the real API and a
// SQLite store, with a clock that stands still, two tenants and a key of each scope.
// Only what accepts events and what checks URLs is faked.
package uitest
