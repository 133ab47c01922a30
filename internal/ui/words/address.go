package words

import (
	"strings"
	"unicode/utf8"
)

// Address is a URL in the parts that it is shown in: the host is never cut, the
// path may be.
type Address struct {
	Scheme string // https://
	Host   string // with its port
	Path   string // with what follows; cut, it ends in …
	Full   string
}

// String is the address as it is shown in a list, without its scheme.
func (a Address) String() string { return a.Host + a.Path }

// OfURL takes a URL apart and cuts what comes after the host to so many
// characters, at least 2; 0: it is not cut. What is no URL is shown as it is.
func OfURL(url string, most int) Address {
	a := Address{Full: url}
	rest := url
	if i := strings.Index(url, "://"); i >= 0 {
		a.Scheme, rest = url[:i+3], url[i+3:]
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest, a.Path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:] // nobody's password belongs on a page
		a.Full = a.Scheme + rest + a.Path
	}
	a.Host = rest
	if a.Path == "/" {
		a.Path = ""
	}
	a.Path = Cut(a.Path, most)
	return a
}

// Cut shortens a text to so many characters, the last of which is … then; 0: not
// at all. Ids are never cut: they are for copying.
func Cut(s string, most int) string {
	if most <= 0 || utf8.RuneCountInString(s) <= most {
		return s
	}
	keep := max(most, 2) - 1
	for i := range s {
		if keep == 0 {
			return s[:i] + "…"
		}
		keep--
	}
	return s
}
