package notify

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// Bounds of the fields of a channel.
const (
	MaxName     = 100 // characters
	MaxURL      = 2048
	MaxRules    = 100
	MaxRuleName = 64
	MaxPatterns = 50
	MaxHeaders  = 20
	MaxTo       = 20
)

// Check validates a channel for create and update. The error is a
// *hook.Invalid that names every field that breaks a rule, never a value that
// may be secret. Whether the names of rules exist, and whether the address guard
// lets the URL through, is for the caller to check.
func Check(ch hook.Channel) error {
	c := &checker{ch: ch}
	c.common()
	switch ch.Kind {
	case hook.ChannelLog:
		c.empty("url", ch.URL == "")
		c.empty("secret", ch.Secret == "")
		c.empty("headers", len(ch.Headers) == 0)
		c.empty("to", len(ch.To) == 0)
	case hook.ChannelWebhook:
		c.url()
		c.secret()
		c.headers()
		c.empty("to", len(ch.To) == 0)
	case hook.ChannelSlack:
		c.url()
		c.empty("secret", ch.Secret == "")
		c.empty("headers", len(ch.Headers) == 0)
		c.empty("to", len(ch.To) == 0)
	case hook.ChannelEmail:
		c.empty("url", ch.URL == "")
		c.empty("secret", ch.Secret == "")
		c.empty("headers", len(ch.Headers) == 0)
		c.to()
	default:
		c.bad("kind", "must be log, webhook, slack or email")
	}
	if len(c.fields) > 0 {
		return &hook.Invalid{Code: "validation_failed", Fields: c.fields}
	}
	return nil
}

type checker struct {
	ch     hook.Channel
	fields []hook.FieldError
}

func (c *checker) bad(path, message string) {
	c.fields = append(c.fields, hook.FieldError{Path: path, Message: message})
}

func (c *checker) empty(path string, ok bool) {
	if !ok {
		c.bad(path, fmt.Sprintf("must be empty for a channel of kind %s", c.ch.Kind))
	}
}

// common checks what channels of all kinds have.
func (c *checker) common() {
	if err := mailer.CheckLine(c.ch.Name, MaxName); err != nil {
		c.bad("name", err.Error())
	}
	for i, l := range c.ch.Levels {
		switch {
		case l < hook.LevelEndpoint || l > hook.LevelSystem:
			c.bad(item("levels", i), "must be endpoint, tenant or system")
		case slices.Contains(c.ch.Levels[:i], l):
			c.bad(item("levels", i), "must not be listed twice")
		case l == hook.LevelSystem && c.ch.Tenant != 0:
			c.bad(item("levels", i), "must not be system for the channel of a tenant")
		}
	}
	if c.ch.MinSeverity > hook.SeverityPage {
		c.bad("min_severity", "must be info, warning or page")
	}
	c.rules()
	c.patterns()
}

func (c *checker) rules() {
	if len(c.ch.Rules) > MaxRules {
		c.bad("rules", fmt.Sprintf("must have at most %d names", MaxRules))
		return
	}
	for i, name := range c.ch.Rules {
		switch {
		case !isRuleName(name):
			c.bad(item("rules", i), fmt.Sprintf(`must be 1 to %d of a-z, 0-9 and "_"`, MaxRuleName))
		case slices.Contains(c.ch.Rules[:i], name):
			c.bad(item("rules", i), "must not be listed twice")
		}
	}
}

func isRuleName(s string) bool {
	return s != "" && len(s) <= MaxRuleName && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_'
	})
}

func (c *checker) patterns() {
	list := c.ch.OperationalEvents
	switch {
	case len(list) > 0 && c.ch.Kind != hook.ChannelWebhook:
		c.bad("operational_events", "must be empty: only webhook channels get operational events")
		return
	case len(list) > MaxPatterns:
		c.bad("operational_events", fmt.Sprintf("must have at most %d patterns", MaxPatterns))
		return
	}
	for i, p := range list {
		path := item("operational_events", i)
		if err := hook.CheckPattern(p); err != nil {
			c.bad(path, err.Error())
		} else if _, err := hook.MatchOperational(p); err != nil {
			c.bad(path, "must select an operational event: "+err.Error())
		} else if slices.Contains(list[:i], p) {
			c.bad(path, "must not be listed twice")
		}
	}
}

func (c *checker) url() {
	if err := checkURL(c.ch.URL); err != nil {
		c.bad("url", err.Error())
	}
}

func checkURL(raw string) error {
	switch {
	case raw == "":
		return errors.New("must not be empty")
	case len(raw) > MaxURL:
		return fmt.Errorf("must be at most %d bytes long", MaxURL)
	case !utf8.ValidString(raw):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(raw, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }):
		return errors.New("must not contain spaces or control characters")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("is not a valid URL") // the error would repeat it, and a Slack URL is a secret
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must use http or https")
	case u.Opaque != "", u.Hostname() == "":
		return errors.New("must have the form https://host/path")
	case u.User != nil:
		return errors.New("must not contain a user name or password")
	case strings.Contains(raw, "#"):
		return errors.New("must not contain a fragment")
	}
	return nil
}

func (c *checker) secret() {
	if _, err := sign.ParseSecret(c.ch.Secret); err != nil {
		c.bad("secret", "is not valid: "+err.Error())
	}
}

func (c *checker) headers() {
	if len(c.ch.Headers) > MaxHeaders {
		c.bad("headers", fmt.Sprintf("must have at most %d names", MaxHeaders))
		return
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.ch.Headers)) {
		// A name that is not one is quoted: it may hold anything.
		path := "headers." + name
		err := hook.CheckHeader(name, c.ch.Headers[name])
		if errors.Is(err, hook.ErrHeaderMalformed) {
			path = fmt.Sprintf("headers[%.150q]", name)
		}
		lower := strings.ToLower(name)
		switch {
		case err != nil:
			c.bad(path, err.Error())
		case seen[lower]:
			c.bad(path, "must not be listed twice, in upper or lower case")
		}
		seen[lower] = true
	}
}

func (c *checker) to() {
	if n := len(c.ch.To); n == 0 || n > MaxTo {
		c.bad("to", fmt.Sprintf("must have 1 to %d addresses", MaxTo))
		return
	}
	for i, address := range c.ch.To {
		if err := mailer.CheckAddress(address); err != nil {
			c.bad(item("to", i), err.Error())
		} else if slices.ContainsFunc(c.ch.To[:i], func(s string) bool { return strings.EqualFold(s, address) }) {
			c.bad(item("to", i), "must not be listed twice")
		}
	}
}

func item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
