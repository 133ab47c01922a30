// Package ui serves the dashboard under /ui: pages that are rendered on the server,
// a style sheet, and a small module that keeps them current.
//
// It reads and acts through the product's own API, in the process, so that it can do
// nothing that a key could not do. Every page is a URL and every button a form: all
// of it works without scripts. It opens no listener and keeps no state of its own.
package ui
