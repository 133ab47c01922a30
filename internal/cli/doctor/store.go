package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const inUse = "in use by a running server"

// store tells what was found when the store was opened.
func (d *doctor) store() {
	const name = "store"
	r := &d.report
	switch {
	case r.Missing:
		d.ok(name, "there is none yet; the first start makes it")
	case r.InUse != "":
		d.ok(name, "%s: %s", inUse, r.InUse)
	case r.Pending > 0 && d.opts.Migrate:
		d.add(name, warn, fmt.Sprintf("version %d, %s to be applied", r.Version, kit.Plural(r.Pending, "migration is", "migrations are")),
			"make a backup; the next start, or breakwater migrate up, applies them")
	case r.Pending > 0:
		d.add(name, fail, fmt.Sprintf("version %d, %s to be applied", r.Version, kit.Plural(r.Pending, "migration is", "migrations are")),
			"breakwater migrate up; store.migrate is off, so a start does not do it")
	case r.Err != nil:
		d.add(name, fail, r.Err.Error(), "docs/operating.md, Troubleshooting, lists what the store may say and what to do then")
	default:
		d.ok(name, "version %d, opened in %s", r.Version, short(r.OpenedIn))
	}
}

// server asks a server that runs with these settings, or the one that was named.
func (d *doctor) server(ctx context.Context) {
	const name = "server"
	expected := d.report.InUse != "" || d.Named()
	if !expected && !d.report.Shared {
		d.ok(name, "none runs on this store")
		return
	}
	c, err := d.ClientOf(d.address())
	if err != nil {
		d.add(name, fail, err.Error(), "name the server with --url")
		return
	}
	began := time.Now()
	resp, err := c.WithoutKey().Do(ctx, kit.Request{Method: http.MethodGet, Path: "readyz"})
	if problem, is := errors.AsType[*kit.Problem](err); is {
		d.add(name, fail, c.Address()+" is not ready: "+problem.Error(), "look at its log; docs/operating.md, Troubleshooting, has the reasons")
		return
	}
	switch {
	case err != nil && !expected:
		d.ok(name, "none answers at %s", c.Address())
	case err != nil && d.Named():
		d.add(name, fail, err.Error(), "start it, or name another with --url")
	case err != nil:
		d.add(name, warn, "one uses the store, but none answers at "+c.Address(), "name it with --url")
	default:
		_ = resp.Body.Close()
		d.ok(name, "%s is ready", c.Address())
		d.compareDates(resp.Header.Get("Date"), began)
	}
}

// address is where a server with these settings listens.
func (d *doctor) address() string {
	scheme := "http://"
	if d.opts.TLSCertFile != "" {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(d.opts.Listen)
	if err != nil {
		return scheme + d.opts.Listen
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(host, port)
}

// How far clocks may be apart.
const (
	clockApart  = 2 * time.Second
	clockBroken = time.Minute
)

// compareDates compares this clock with a server's, whose date has whole seconds and
// was written between began and now.
func (d *doctor) compareDates(date string, began time.Time) {
	there, err := http.ParseTime(date)
	if err != nil {
		return
	}
	var offset time.Duration
	if ahead := began.Sub(there.Add(time.Second)); ahead > 0 {
		offset = ahead
	} else if behind := time.Until(there); behind > 0 {
		offset = -behind
	}
	d.skew("the server's", offset)
}

func (d *doctor) skew(whose string, offset time.Duration) {
	const name = "clock"
	text := fmt.Sprintf("%s apart from %s", short(offset.Abs()), whose)
	const remedy = "keep clocks right with NTP (chrony, systemd-timesyncd): due times and signatures go by them"
	switch {
	case offset.Abs() > clockBroken:
		d.add(name, fail, text, remedy)
	case offset.Abs() > clockApart:
		d.add(name, warn, text, remedy)
	default:
		d.ok(name, "%s", text)
	}
}

// clock compares this machine's clock with the database's.
func (d *doctor) clock() {
	if d.report.Clock != nil {
		d.skew("the database's", *d.report.Clock)
	}
}

// nodes tells who works on a shared store.
func (d *doctor) nodes() {
	const name = "nodes"
	r := &d.report
	if !r.Shared || !r.Opened {
		return
	}
	var live []string
	for _, n := range r.Nodes {
		if n.Live {
			live = append(live, n.Name)
		}
	}
	switch {
	case len(live) == 0:
		d.ok(name, "none runs")
	case r.Unowned > 0:
		d.add(name, warn, fmt.Sprintf("%s run, and %s no owner", strings.Join(live, ", "), kit.Plural(r.Unowned, "shard has", "shards have")),
			"look again in half a minute; if it stays so, look at the logs of the nodes for leases that could not be kept")
	default:
		d.ok(name, "%s: every shard has an owner", strings.Join(live, ", "))
	}
}

// keys checks that what is sealed can be opened.
func (d *doctor) keys() {
	const name = "key"
	r, k := &d.report, &d.report.Keys
	if !r.Opened {
		d.keysAlone(name)
		return
	}
	switch {
	case k.Err != nil && errors.Is(k.Err, fs.ErrNotExist) && k.Needed == "":
		d.ok(name, "none yet; the first start makes one")
	case k.Err != nil:
		d.add(name, fail, k.Err.Error(), "bring the key back from where you keep it; without it the secrets of endpoints are lost")
	case len(k.Closed) > 0:
		d.add(name, fail, fmt.Sprintf("%d of %d sealed values do not open: %s", len(k.Closed)+k.Others, k.Values, k.Closed[0]),
			"add the key that they were sealed with to encryption_key, or give those endpoints new secrets")
	case strings.Contains(k.Needed, ","):
		d.add(name, warn, "a change of keys is not finished: the store needs "+k.Needed, "run breakwater rekey again")
	default:
		d.ok(name, "%s opens all %s", k.IDs, kit.Plural(k.Values, "sealed value", "sealed values"))
	}
}

// keysAlone looks at the keys when the store cannot be asked.
func (d *doctor) keysAlone(name string) {
	keys, err := d.opts.LoadKeys(vault.Load)
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.report.Missing:
		d.ok(name, "none yet; the first start makes one")
	case err != nil:
		d.add(name, fail, err.Error(), "bring the key back from where you keep it; without it the secrets of endpoints are lost")
	case d.report.InUse != "":
		d.ok(name, "%s; whether it opens what is sealed is not checked: %s", vault.IDs(keys), inUse)
	default:
		d.ok(name, "%s", vault.IDs(keys))
	}
}
