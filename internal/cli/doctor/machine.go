package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// folder checks who may read the data folder and what is in it.
func (d *doctor) folder() {
	const name = "folder"
	dir := d.opts.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok(name, "%s does not exist yet; the first start makes it", dir)
		return
	case err != nil:
		d.add(name, fail, err.Error(), "let the user of the server reach it, or name another with --data-dir")
		return
	case !info.IsDir():
		d.add(name, fail, dir+" is no folder", "name another with --data-dir")
		return
	case runtime.GOOS == "windows": // no such bits
		d.ok(name, "%s", dir)
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		d.add(name, fail, err.Error(), "run as the user of the server, or: chown -R USER "+dir)
		return
	}
	private := true
	open := info.Mode().Perm()&0o077 != 0
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		switch {
		case isKey(e.Name()):
			private = false
			d.add(name, fail, fmt.Sprintf("others than its owner have access to %s (mode %04o)", at, info.Mode().Perm()), "chmod 600 "+at)
		case open && strings.HasPrefix(e.Name(), "breakwater.db"):
			private = false
			d.add(name, fail, fmt.Sprintf("others than its owner can read %s (mode %04o)", at, info.Mode().Perm()), fmt.Sprintf("chmod 700 %s && chmod 600 %s", dir, at))
		}
	}
	switch {
	case !private:
	case open:
		d.add(name, warn, fmt.Sprintf("others than its owner have access to %s (mode %04o)", dir, info.Mode().Perm()), "chmod 700 "+dir)
	default:
		d.ok(name, "%s and its keys belong to their owner alone", dir)
	}
}

func isKey(name string) bool {
	return strings.HasPrefix(name, "secret.key") || name == "admin.key"
}

// disk compares what is free with what is kept back.
func (d *doctor) disk() {
	const name = "disk"
	if d.opts.DatabaseURL != "" {
		d.ok(name, "the store is not on this machine")
		return
	}
	dir := existing(d.opts.DataDir)
	free, err := d.DiskFree(dir)
	if err != nil {
		d.add(name, fail, err.Error(), "look at the file system of "+dir)
		return
	}
	reserve := d.opts.DiskReserve
	text := fmt.Sprintf("%s are free, %s are kept back (store.disk_reserve)", rounded(free), quantity.FormatSize(reserve))
	switch {
	case free < reserve:
		d.add(name, fail, text+": new events get 507", "make room on the file system of "+dir)
	case free < 2*reserve:
		d.add(name, warn, text, "make room on the file system of "+dir+" soon")
	default:
		d.ok(name, "%s", text)
	}
}

// rounded shows a size to the MiB, or the GiB if there are many.
func rounded(bytes int64) string {
	unit := int64(1 << 20)
	if bytes >= 100<<30 {
		unit = 1 << 30
	}
	return quantity.FormatSize(bytes / unit * unit)
}

// existing is the folder, or the nearest one above it that exists.
func existing(dir string) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

const (
	flushes   = 16
	slowFlush = 50 * time.Millisecond
)

// flushes measures how long it takes until something is on disk. Every commit of the
// embedded store waits for that.
func (d *doctor) flushes() {
	const name = "fsync"
	if d.opts.DatabaseURL != "" {
		return
	}
	dir := d.opts.DataDir
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = existing(dir)
	}
	times, err := measureFlushes(dir)
	if err != nil {
		d.add(name, fail, err.Error(), "let the user of the server write to "+dir)
		return
	}
	text := fmt.Sprintf("%s at the median of %d, %s at most", short(times[flushes/2]), flushes, short(times[flushes-1]))
	if times[flushes/2] > slowFlush {
		d.add(name, warn, text, "use a faster disk: this bounds how many commits there are in a second")
		return
	}
	d.ok(name, "%s", text)
}

func measureFlushes(dir string) (times []time.Duration, err error) {
	f, err := os.CreateTemp(dir, "doctor-*.tmp")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4096)
	for range flushes {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times, nil
}

// descriptors compares what the process may open with what deliveries need.
func (d *doctor) descriptors() {
	const name = "open files"
	have, need := d.Descriptors(), uint64(2*d.opts.MaxInFlight)
	if have < need {
		d.add(name, warn, fmt.Sprintf("%d may be open, %d should be: twice dispatch.max_in_flight", have, need),
			fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%d in the unit", max(need, 65536), max(need, 65536)))
		return
	}
	d.ok(name, "%d may be open, %d are needed", have, need)
}

// nobody is a name that does not exist, by definition: whether a resolver answers can
// be seen without asking for anybody's name.
const nobody = "breakwater-doctor.invalid"

// names checks whether names are resolved, those of the settings among them.
func (d *doctor) names(ctx context.Context) {
	const name = "dns"
	addresses, err := d.LookupHost(ctx, nobody)
	missing, is := errors.AsType[*net.DNSError](err)
	switch {
	case err == nil:
		d.add(name, warn, fmt.Sprintf("the resolver makes addresses up: %s is %s", nobody, strings.Join(addresses, ", ")),
			"use another resolver: events for a name that is gone would be sent there")
	case is && missing.IsNotFound:
		d.ok(name, "a resolver answers")
	case d.opts.EgressProxy != "":
		d.add(name, warn, err.Error(), "names of destinations are resolved by egress.proxy; those of the settings are not")
	default:
		d.add(name, fail, err.Error(), "look at /etc/resolv.conf and the way to the resolver: no destination with a name gets anything")
		return
	}
	for setting, host := range d.hosts() {
		if _, err := d.LookupHost(ctx, host); err != nil {
			d.add(name, fail, fmt.Sprintf("%s: %v", setting, err), "correct the name, or the resolver")
		}
	}
}

// hosts are the names that the settings give, by setting.
func (d *doctor) hosts() map[string]string {
	out := map[string]string{}
	add := func(setting, host string) {
		if host != "" && net.ParseIP(host) == nil {
			out[setting] = host
		}
	}
	for setting, text := range map[string]string{"database_url": d.opts.DatabaseURL, "egress.proxy": d.opts.EgressProxy} {
		if u, err := url.Parse(text); err == nil {
			add(setting, u.Hostname())
		}
	}
	add("smtp.host", d.opts.SMTP.Host)
	return out
}

// roots checks that certificates of destinations can be verified.
func (d *doctor) roots() {
	const name = "ca roots"
	pool, err := d.Roots()
	empty := err == nil && pool.Equal(x509.NewCertPool())
	switch {
	case (err != nil || empty) && d.opts.EgressCAFile != "":
		d.add(name, warn, "this machine has none; only those of egress.ca_file are trusted", "install the package ca-certificates, unless that is what you want")
	case err != nil || empty:
		d.add(name, fail, "this machine has none: no https destination can be verified", "install the package ca-certificates, or set SSL_CERT_FILE or egress.ca_file")
	default:
		d.ok(name, "certificates of destinations can be verified")
	}
}

// reach tries to connect to a destination.
func (d *doctor) reach(ctx context.Context, address string) {
	const name = "reach"
	began := time.Now()
	if err := app.Reach(ctx, *d.opts, address); err != nil {
		d.add(name, fail, fmt.Sprintf("%s: %v", address, err),
			"look at firewall, proxy (egress.proxy) and, if the address is refused, egress.allow_cidr, deny_cidr and ports")
		return
	}
	d.ok(name, "%s takes connections, in %s", address, short(time.Since(began)))
}
