package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestManaging runs the commands that change endpoints, tenants and dead letters, and
// those that list lanes, against a real server.
func TestManaging(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	endpoint := strings.Fields(l.run(0, "--quiet", "endpoints", "create", l.sink.URL+"/hook").stdout)[0]
	shows(t, l.run(0, "lanes").stdout, "ENDPOINT +STATE", endpoint+" +closed")
	shows(t, l.run(0, "top").stdout, endpoint+" +closed")
	shows(t, l.run(0, "lanes", "--json", "--state", "closed").stdout, `"data":\[\{"endpoint":"`+endpoint)
	if got := l.run(0, "lanes", "--storm", "--quiet").stdout; got != "" {
		t.Errorf("lanes --storm: %s", got)
	}
	shows(t, l.run(2, "lanes", "--state", "half").stderr, "--state: must be open or closed")
	shows(t, l.run(2, "top", "--limit", "0").stderr, "--limit: must be between 1 and 1000")

	shows(t, l.run(0, "endpoints", "update", endpoint, "--description", "shop", "--types", "order.*").stdout, endpoint+" changed, version 2")
	shows(t, l.run(2, "endpoints", "update", endpoint).stderr, "name what to change")
	l.run(5, "endpoints", "update", endpoint, "--address", "ftp://example.com/")
	l.run(5, "endpoints", "probe", endpoint)
	shows(t, l.run(0, "endpoints", "rotate-secret", endpoint, "--overlap", "1h").stdout, `^whsec_\S+\n$`)
	shows(t, l.run(2, "endpoints", "rotate-secret", endpoint, "--overlap", "long").stderr, "--overlap: ")
	shows(t, l.run(0, "endpoints", "stats", endpoint).stdout, `totals\.attempts +\d`)
	shows(t, l.run(0, "endpoints", "policy", endpoint).stdout, `"retry"`)
	shows(t, l.run(0, "endpoints", "test", endpoint).stdout, `^evt_\w+ accepted; what comes of it: breakwater inspect evt_`)
	shows(t, l.run(2, "endpoints", "test", endpoint, "-d", "{").stderr, "not valid JSON")
	shows(t, l.run(0, "endpoints", "disable", endpoint).stdout, "disabled")
	shows(t, l.run(0, "endpoints", "resume", endpoint).stdout, "resumed")

	control(t, l.sink.URL, `{"fail":422}`)
	l.run(1, "send", "order.paid", "--wait")
	shows(t, l.run(0, "dead", "groups").stdout, endpoint+` +permanent +422 +1 `)
	shows(t, l.run(2, "dead", "discard", "--yes").stderr, "name deliveries or a filter, or --all")
	shows(t, l.run(2, "dead", "discard", "--all").stderr, `This cancels 1 dead letter for good. Say so with --yes.`)
	shows(t, l.run(0, "dead", "discard", "--reason", "permanent", "--yes").stdout, "^1 dead letter discarded\n$")

	tenant := strings.TrimSpace(l.run(0, "tenants", "create", "--uid", "acme").stdout)
	shows(t, l.run(0, "tenants", "update", "acme", "--name", "Acme").stdout, tenant+" changed")
	shows(t, l.run(0, "tenants", "get", "acme").stdout, `"name": "Acme"`)
	shows(t, l.run(2, "tenants", "update", "acme").stderr, "name what to change")
	if link := l.run(0, "tenants", "portal-link", "acme", "--ttl", "10m").stdout; !regexp.MustCompile(`^\S*/ui/\S+\n$`).MatchString(link) {
		t.Errorf("portal-link: %q", link)
	}
	l.run(5, "tenants", "portal-link", "acme", "--ttl", "1s")
	shows(t, l.run(2, "tenants", "delete", "acme", "--force").stderr, "Say so with --yes")
	shows(t, l.run(0, "tenants", "delete", "acme").stdout, "acme deleted")
	l.run(3, "tenants", "get", "acme")
}
