// Package ui is the dashboard under /ui: it puts the sections and what browsers keep
// together and serves them.
//
// What a page shows is the business of its section, what all pages have in common that
// of package site.
package ui
