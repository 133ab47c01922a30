package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// uiSettings are those of the dashboard.
func (c *Config) uiSettings() []setting {
	u := &c.Options.UI
	return []setting{
		row("ui.public_url", text(&u.PublicURL, "url", "http://… or https://…", checkPublicURL), "",
			"address of the dashboard for people, portal links start with it; public_url when empty, else the address that the server listens on"),
		row("ui.vendor_name", text(&u.VendorName, "name", "up to 64 characters", checkVendorName), "Breakwater",
			"name of the service that visitors of the portal see"),
		row("ui.vendor_logo", text(&u.VendorLogo, "image", "https://… or data:image/…;base64,… up to 64 KiB", checkLogo), "",
			"logo that visitors of the portal see: PNG, SVG, JPEG, WebP or GIF as data, or the address of one"),
		row("ui.vendor_color", text(&u.VendorColor, "color", "#rrggbb", checkColor), "",
			"accent color of the portal"),
		row("ui.frame_ancestors", many(&u.FrameAncestors, "origin,…", "up to 20 origins such as https://app.example.com", checkOrigin, func(s string) string { return s }), "",
			"sites that may show the portal in a frame; none when empty"),
	}
}

const (
	maxVendorName = 64
	maxLogo       = 64 * kib
	maxAncestors  = 20
)

func checkVendorName(s string) error {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxVendorName || strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("must be up to 64 characters, none of them control characters")
	}
	return nil
}

// logoTypes are the images that browsers show. An image cannot run a script, also
// not an SVG.
var logoTypes = []string{"image/png", "image/svg+xml", "image/jpeg", "image/webp", "image/gif"}

func checkLogo(s string) error {
	wrong := errors.New("must be a URL that starts with https://, without user and fragment, or data:image/png;base64,… of up to 64 KiB")
	if data, ok := strings.CutPrefix(s, "data:"); ok {
		kind, encoded, _ := strings.Cut(data, ";base64,")
		if !slices.Contains(logoTypes, kind) || encoded == "" || len(s) > maxLogo {
			return wrong
		}
		if _, err := base64.StdEncoding.Strict().DecodeString(encoded); err != nil {
			return wrong
		}
		return nil
	}
	u, err := url.Parse(s)
	// The address becomes part of a header, where these separate.
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(s) > 2048 || strings.ContainsAny(s, " ;,'\"<>\\") {
		return wrong
	}
	return nil
}

func checkColor(s string) error {
	if len(s) != 7 || s[0] != '#' || strings.Trim(s[1:], "0123456789abcdefABCDEF") != "" {
		return errors.New("must be # and six hexadecimal digits, such as #1f6feb")
	}
	return nil
}

// checkOrigin takes scheme, host and port alone: they become part of a header.
func checkOrigin(s string) (string, error) {
	u, err := url.Parse(s)
	host := ""
	if err == nil {
		host = strings.TrimPrefix(u.Hostname(), "*.")
	}
	plain := func(r rune) bool { return alphanumeric(r) || strings.ContainsRune(".-:", r) }
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || host == "" || strings.ContainsFunc(host, func(r rune) bool { return !plain(r) }) ||
		u.Scheme+"://"+u.Host != s || u.User != nil || len(s) > 255 {
		return "", fmt.Errorf("%q is not an origin such as https://app.example.com or https://*.example.com", s)
	}
	return s, nil
}
