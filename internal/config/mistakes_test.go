package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/config"
)

// TestMistakes holds one wrong configuration per rule, with the message a
// person reads. $FILE stands for the YAML file.
func TestMistakes(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for name, tc := range map[string]struct {
		yaml    string
		environ []string
		flags   []string
		want    string
	}{
		"unknown key":            {yaml: "store:\n  max_con: 4\n", want: "store.max_con ($FILE line 2): unknown key; did you mean store.max_conns?"},
		"unknown key, swapped":   {yaml: "lsiten: x\n", want: "lsiten ($FILE line 1): unknown key; did you mean listen?"},
		"key without section":    {yaml: "max_conns: 4\n", want: "max_conns ($FILE line 1): unknown key; did you mean store.max_conns?"},
		"nothing near":           {yaml: "zzzzzzzz: 4\n", want: "zzzzzzzz ($FILE line 1): unknown key"},
		"unknown empty key":      {yaml: "lisen:\n", want: "lisen ($FILE line 1): unknown key; did you mean listen?"},
		"section as value":       {yaml: "store: 4\n", want: "store ($FILE line 1): is a section: put its settings under it"},
		"value as section":       {yaml: "listen:\n  port: 4\n", want: "listen.port ($FILE line 2): unknown key; did you mean listen?"},
		"repeated key":           {yaml: "listen: ':1'\nlisten: ':2'\n", want: "listen ($FILE line 2): is already set in line 1"},
		"list for one value":     {yaml: "listen: [a, b]\n", want: "listen ($FILE line 1): takes one value, not a list"},
		"alias":                  {yaml: "node_name: &a x\nlisten: *a\n", want: "listen ($FILE line 2): must be a plain value; aliases are not supported"},
		"two documents":          {yaml: "dev: true\n---\ndev: false\n", want: "$FILE: must hold one YAML document"},
		"not a mapping":          {yaml: "- a\n", want: "$FILE: must be a mapping of settings"},
		"not YAML":               {yaml: "a: [\n", want: "$FILE: is not valid YAML: line 1: did not find expected node content"},
		"missing file":           {flags: []string{"--config=" + missing}, want: missing + ": cannot be read: no such file or directory"},
		"unknown variable":       {environ: []string{"BREAKWATER_STORE_MAXCONNS=4"}, want: "BREAKWATER_STORE_MAXCONNS (environment): unknown variable; did you mean BREAKWATER_STORE_MAX_CONNS?"},
		"unknown client var":     {environ: []string{"BREAKWATER_APIKEY=4"}, want: "BREAKWATER_APIKEY (environment): unknown variable; did you mean BREAKWATER_API_KEY?"},
		"nothing near in env":    {environ: []string{"BREAKWATER_X=4"}, want: "BREAKWATER_X (environment): unknown variable"},
		"file of a non-secret":   {environ: []string{"BREAKWATER_LISTEN_FILE=x"}, want: "BREAKWATER_LISTEN_FILE (environment): unknown variable; did you mean BREAKWATER_LISTEN?"},
		"key name in env":        {environ: []string{"BREAKWATER_EGRESS_ALLOW_CIDR=10.0.0.0/8"}, want: "BREAKWATER_EGRESS_ALLOW_CIDR (environment): unknown variable; did you mean BREAKWATER_ALLOW_CIDR?"},
		"number too small":       {environ: []string{"BREAKWATER_STORE_MAX_CONNS=3"}, want: `store.max_conns (BREAKWATER_STORE_MAX_CONNS): "3" must be 8 to 200`},
		"number too large":       {flags: []string{"--dispatch-window=5000"}, want: `dispatch.window (--dispatch-window): "5000" must be 16 to 4096`},
		"not a number":           {yaml: "ingest:\n  queue: many\n", want: `ingest.queue ($FILE line 2): "many" must be a whole number`},
		"not finite":             {flags: []string{"--ingest-tenant-rate=NaN"}, want: `ingest.tenant_rate (--ingest-tenant-rate): "NaN" must be a number`},
		"negative rate":          {flags: []string{"--ingest-tenant-rate=-1"}, want: `ingest.tenant_rate (--ingest-tenant-rate): "-1" must be 0 to 1000000`},
		"size without unit":      {flags: []string{"--ingest-max-payload=1048576"}, want: `ingest.max_payload (--ingest-max-payload): "1048576" must be a size such as 64 KiB or 1 MiB`},
		"size with decimal unit": {flags: []string{"--ingest-max-payload=1MB"}, want: `ingest.max_payload (--ingest-max-payload): "1MB" must be a size such as 64 KiB or 1 MiB`},
		"size overflow":          {flags: []string{"--store-disk-reserve=99999999999TiB"}, want: `store.disk_reserve (--store-disk-reserve): "99999999999TiB" must be a size such as 64 KiB or 1 MiB`},
		"size too large":         {flags: []string{"--ingest-max-payload=17 MiB"}, want: `ingest.max_payload (--ingest-max-payload): "17 MiB" must be 1 KiB to 16 MiB`},
		"bare duration":          {flags: []string{"--lease-ttl=15"}, want: `lease.ttl (--lease-ttl): "15" must be a duration such as "30s", "1h30m" or "7d"`},
		"half days":              {flags: []string{"--retention-data=1.5d"}, want: `retention.data (--retention-data): "1.5d" must be a duration such as "30s", "1h30m" or "7d"`},
		"duration too long":      {flags: []string{"--dispatch-drain-timeout=11m"}, want: `dispatch.drain_timeout (--dispatch-drain-timeout): "11m" must be 1s to 10m`},
		"retention too short":    {flags: []string{"--retention-data=1h"}, want: `retention.data (--retention-data): "1h" must be 1d to 365d`},
		"not a switch":           {yaml: "dev: yes please\n", want: `dev ($FILE line 1): "yes please" must be true or false`},
		"bad CIDR":               {flags: []string{"--allow-cidr=10.0.0.0/8,all"}, want: `egress.allow_cidr (--allow-cidr): "10.0.0.0/8,all" "all" is not a CIDR block such as 10.0.0.0/8`},
		"host bits":              {flags: []string{"--deny-cidr=10.1.2.3/8"}, want: `egress.deny_cidr (--deny-cidr): "10.1.2.3/8" "10.1.2.3/8" has host bits set; the block is 10.0.0.0/8`},
		"empty list":             {flags: []string{"--allow-cidr=,"}, want: `egress.allow_cidr (--allow-cidr): "," must be a comma-separated list: CIDR blocks such as 10.0.0.0/8`},
		"bad port":               {flags: []string{"--egress-ports=443,0"}, want: `egress.ports (--egress-ports): "443,0" "0" is not a port between 1 and 65535`},
		"listen without port":    {flags: []string{"--listen=localhost"}, want: `listen (--listen): "localhost" must be host:port, such as 127.0.0.1:8080 or :8080`},
		"listen port too high":   {flags: []string{"--listen=:70000"}, want: `listen (--listen): ":70000" must be host:port, such as 127.0.0.1:8080 or :8080`},
		"empty required value":   {flags: []string{"--data-dir="}, want: `data_dir (--data-dir): must be the path of a folder`},
		"node name":              {flags: []string{"--node-name=a b"}, want: `node_name (--node-name): "a b" must be 1 to 64 letters, digits, dots, dashes or underscores`},
		"log level":              {flags: []string{"--log-level=trace"}, want: `log.level (--log-level): "trace" must be one of debug, info, warn, error`},
		"log format":             {flags: []string{"--log-format=xml"}, want: `log.format (--log-format): "xml" must be one of json, text`},
		"scheme":                 {flags: []string{"--sign-scheme=v2"}, want: `sign.scheme (--sign-scheme): "v2" must be one of standard, standard_ed25519, stripe`},
		"stripe header":          {flags: []string{"--sign-stripe-header=Webhook-Signature"}, want: `sign.stripe_header (--sign-stripe-header): "Webhook-Signature" must not be one of the headers every request has (webhook-*, breakwater-*)`},
		"stripe header token":    {flags: []string{"--sign-stripe-header=X Sig"}, want: `sign.stripe_header (--sign-stripe-header): "X Sig" must be a header name`},
		"user agent":             {yaml: "egress:\n  user_agent: \"a\\nb\"\n", want: `egress.user_agent ($FILE line 2): "a\nb" must be up to 256 visible ASCII characters and spaces`},
		"pprof off loopback":     {flags: []string{"--pprof-listen=:6060"}, want: `pprof.listen (--pprof-listen): ":6060" must be a loopback address such as 127.0.0.1:6060`},
		"unreadable CA":          {flags: []string{"--egress-ca-file=" + missing}, want: `egress.ca_file (--egress-ca-file): "` + missing + `" cannot be read: no such file or directory`},
		"preset":                 {flags: []string{"--policy=defaullt"}, want: `policy.default (--policy): "defaullt" is not the name of a preset; did you mean default?`},

		"database URL hides itself": {environ: []string{"BREAKWATER_DATABASE_URL=mysql://u:hunter2@h"}, want: "database_url (BREAKWATER_DATABASE_URL): must be a URL that starts with postgres://"},
		"no synchronous commit":     {flags: []string{"--database-url=postgres://h/d?options=-c%20synchronous_commit%3Doff"}, want: "database_url (--database-url): must not switch synchronous_commit off: accepted events could be lost"},
		"synchronous_commit param":  {flags: []string{"--database-url=postgres://h/d?synchronous_commit=off"}, want: "database_url (--database-url): must not switch synchronous_commit off: accepted events could be lost"},
		"admin key hides itself":    {environ: []string{"BREAKWATER_ADMIN_KEY=hunter2"}, want: "admin_key (BREAKWATER_ADMIN_KEY): must be 16 to 256 visible ASCII characters"},
		"encryption key":            {yaml: "encryption_key: hunter2\n", want: "encryption_key ($FILE line 1): must be 32 bytes in base64, several of them separated by commas"},
		"proxy":                     {yaml: "egress:\n  proxy: hunter2:80\n", want: "egress.proxy ($FILE line 2): must be a URL that starts with http:// or https://"},
		"secret and its file":       {environ: []string{"BREAKWATER_ADMIN_KEY=" + goodAdminKey, "BREAKWATER_ADMIN_KEY_FILE=x"}, want: "admin_key (BREAKWATER_ADMIN_KEY and BREAKWATER_ADMIN_KEY_FILE): set either the value or its file, not both"},
		"missing secret file":       {environ: []string{"BREAKWATER_ADMIN_KEY_FILE=" + missing}, want: `admin_key (BREAKWATER_ADMIN_KEY_FILE): "` + missing + `" cannot be read: no such file or directory`},

		"renew too slow":   {flags: []string{"--lease-renew=6s"}, want: "lease.renew (--lease-renew): must be at most a third of lease.ttl (15s)"},
		"queue too short":  {flags: []string{"--ingest-max-fanout=70000"}, want: "ingest.queue (default): must be at least 71000: the greater of ingest.max_fanout and ingest.max_request_deliveries, and 1000 events"},
		"queue too small":  {flags: []string{"--ingest-queue-bytes=16MiB", "--ingest-max-batch-body=32MiB"}, want: "ingest.queue_bytes (--ingest-queue-bytes): must be at least ingest.max_batch_body (32 MiB)"},
		"ttl too short":    {flags: []string{"--lease-ttl=6s"}, want: "lease.renew (default): must be at most a third of lease.ttl (6s)"},
		"cert without key": {flags: []string{"--tls-cert-file=/dev/null"}, want: "tls.cert_file (--tls-cert-file): needs tls.key_file as well"},
		"key without cert": {flags: []string{"--tls-key-file=/dev/null"}, want: "tls.key_file (--tls-key-file): needs tls.cert_file as well"},
		"dev off loopback": {flags: []string{"--dev", "--listen=:8080"}, want: "listen (--listen): must be a loopback address with dev, which lets deliveries into private networks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tc.yaml, tc.environ, tc.flags)
			problems, ok := errors.AsType[*config.Error](err)
			if !ok {
				t.Fatalf("Load = %v, want *config.Error", err)
			}
			if len(problems.Problems) != 1 {
				t.Fatalf("got %d problems, want one:\n%v", len(problems.Problems), err)
			}
			got := withoutFolder(problems.Problems[0].String())
			if got != tc.want {
				t.Errorf("message\n got %s\nwant %s", got, tc.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("message shows a secret: %v", err)
			}
		})
	}
}

// withoutFolder replaces the path of the YAML file by $FILE.
func withoutFolder(s string) string {
	const file = "settings.yaml"
	before, after, found := strings.Cut(s, file)
	if !found {
		return s
	}
	return before[:strings.LastIndexAny(before, "( ")+1] + "$FILE" + after
}

func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, "store:\n  max_con: 4\nlisten: nowhere\n",
		[]string{"BREAKWATER_TYPO=1", "BREAKWATER_STORE_BATCH=0"},
		[]string{"--lease-renew=6s", "--dispatch-window=1"})
	problems, ok := errors.AsType[*config.Error](err)
	if !ok {
		t.Fatalf("Load = %v, want *config.Error", err)
	}
	for _, key := range []string{"store.max_con", "listen", "BREAKWATER_TYPO", "store.batch", "lease.renew", "dispatch.window"} {
		if !strings.Contains(err.Error(), "\n  "+key+" (") {
			t.Errorf("%s is missing from:\n%v", key, err)
		}
	}
	if len(problems.Problems) != 6 || !strings.HasPrefix(err.Error(), "configuration has 6 problems:\n") {
		t.Errorf("want 6 problems, got:\n%v", err)
	}
}

func TestNoPlainFlagForSecrets(t *testing.T) {
	t.Parallel()
	fs := flagSet()
	for _, flag := range []string{"admin-key", "encryption-key", "egress-proxy"} {
		if fs.Lookup(flag) != nil {
			t.Errorf("--%s exists: other users of the machine could read it", flag)
		}
		if fs.Lookup(flag+"-file") == nil {
			t.Errorf("--%s-file is missing", flag)
		}
	}
	if fs.Lookup("database-url") == nil || fs.Lookup("database-url-file") == nil {
		t.Error("--database-url and --database-url-file must exist")
	}
}

// TestEncryptionKeyFileIsPrivate: a key that every account can read seals
// nothing.
func TestEncryptionKeyFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := secretFile(t, goodEncryptionKey)
	flags := []string{"--encryption-key-file", path}
	for mode, fine := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: true, 0o644: false, 0o604: false, 0o602: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := load(t, "", nil, flags)
		if fine != (err == nil) || err != nil && !strings.Contains(err.Error(), "run: chmod 600 "+path) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}
