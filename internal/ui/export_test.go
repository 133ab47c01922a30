package ui

// Sections are for tests of all pages and forms.
var Sections = sections
