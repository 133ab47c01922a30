// Package site is what the pages of the dashboard have in common: who visits, the
// frame around a page, forms and what they do, blocks that are kept current, the
// login, and the answers when something is wrong.
//
// It reads and acts through the product's own API, in the process, so that a page can
// do nothing that a key could not do. Every page is a URL and every button a form: all
// of it works without scripts. It knows no page but the login, opens no listener, and
// keeps nothing but which streams are open.
package site
