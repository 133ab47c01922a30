package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wrong is a command line that cannot work.
type wrong struct {
	args  []string
	code  int
	names string   // the flag, argument, field or object that is wrong
	next  string   // what to do about it, or the rule
	env   []string // beside that of the server
}

// words splits a command line that quotes nothing.
func words(line string) []string { return strings.Fields(line) }

// failure is what --json tells.
type failure struct {
	Code     string `json:"code"`
	Detail   string `json:"detail"`
	Next     string `json:"next"`
	ExitCode int    `json:"exit_code"`
	Errors   []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"errors"`
}

// about reports whether the failure says what is wrong with a flag.
func (f *failure) about(flag string) bool {
	for _, e := range f.Errors {
		if e.Path == flag && e.Message != "" {
			return true
		}
	}
	return false
}

// check runs the command line as people do, and as scripts do.
func (w *wrong) check(t *testing.T, environ []string) {
	t.Helper()
	environ = append(slices.Clip(environ), w.env...)
	got := runWith(environ, "", w.args...)
	if got.code != w.code || !strings.Contains(got.stderr, w.names) || !strings.Contains(got.stderr, w.next) || got.stdout != "" {
		t.Errorf("exit %d, want %d; stdout %q, and stderr without %q or %q:\n%s", got.code, w.code, got.stdout, w.names, w.next, got.stderr)
	}
	got = runWith(environ, "", append(slices.Clip(w.args), "--json")...)
	line := strings.TrimSpace(got.stderr)
	line = line[strings.LastIndex(line, "\n")+1:]
	var f failure
	if err := json.Unmarshal([]byte(line), &f); err != nil || got.stdout != "" {
		t.Fatalf("--json: %v, stdout %q, stderr:\n%s", err, got.stdout, got.stderr)
	}
	if got.code != w.code || f.ExitCode != w.code || f.Code == "" || f.Detail == "" || f.Errors == nil || strings.Contains(f.Detail, "\n  see: ") {
		t.Errorf("--json: exit %d, want %d: %s", got.code, w.code, line)
	}
	if strings.HasPrefix(w.names, "--") && !f.about(w.names) {
		t.Errorf("--json: errors do not name %s: %s", w.names, line)
	}
}

// TestWrongInput: what people get wrong. The exit code tells what kind of mistake it
// is; the text names what is wrong and what to do next; with --json scripts get the
// same as a document.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	l := newLive(t)
	endpoint := strings.Fields(l.run(0, "--quiet", "endpoints", "create", l.sink.URL+"/hook").stdout)[0]
	l.run(0, "send", "order.paid", "--wait")
	delivered := strings.TrimSpace(l.run(0, "deliveries", "list", "--quiet").stdout)
	l.run(0, "tenants", "create", "--uid", "acme")
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	reader := file("reader.key", l.run(0, "keys", "create", "--scope", "tenant:read").stdout)
	sender := file("sender.key", l.run(0, "keys", "create", "--scope", "tenant:send", "--tenant", "acme").stdout)
	missing, emptyKey, notJSON := filepath.Join(dir, "missing"), file("empty.key", "\n"), file("schema.json", "{")
	badYAML := file("bad.yaml", "listen: 127.0.0.1:1\nstoore: {batch: 1}\n")
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	address := strings.TrimPrefix(l.sink.URL, "http://") // which is taken

	for line, w := range map[string]wrong{
		// Commands, flags and arguments that are not there.
		"sned a":                       {code: 2, names: `"sned"`, next: "did you mean send?"},
		"help sned":                    {code: 2, names: `"sned"`, next: "did you mean send?"},
		"help keys remove":             {code: 2, names: `"remove"`, next: "did you mean revoke?"},
		"frobnicate":                   {code: 2, names: `"frobnicate"`, next: "there are: alerts, "},
		"keys remove":                  {code: 2, names: `"remove" for "breakwater keys"`, next: "did you mean revoke?"},
		"keys frob":                    {code: 2, names: `"frob" for "breakwater keys"`, next: "there are: create, list, revoke"},
		"keys":                         {code: 2, names: "keys", next: "create"},
		"replay wacth rpl_x":           {code: 2, names: `"wacth"`, next: "did you mean watch?"},
		"serve --lisen=:1":             {code: 2, names: "--lisen", next: "did you mean --listen?"},
		"send a --frob":                {code: 2, names: "--frob", next: "see: breakwater send --help"},
		"send a --count":               {code: 2, names: "--count", next: "see: breakwater send --help"},
		"send":                         {code: 2, names: "usage: breakwater send TYPE", next: "see: breakwater send --help"},
		"endpoints create":             {code: 2, names: "create URL", next: "see: breakwater endpoints create --help"},
		"endpoints get a b":            {code: 2, names: "get ENDPOINT", next: "see: breakwater endpoints get --help"},
		"deliveries retry":             {code: 2, names: "retry DELIVERY...", next: "see: breakwater deliveries retry --help"},
		"verify":                       {code: 2, names: "--secret-file", next: "name a file"},
		"backup":                       {code: 2, names: "--to", next: "name the file of the backup"},
		"restore":                      {code: 2, names: "--from", next: "name the file of the backup"},
		"policies create x":            {code: 2, names: "--file", next: "name the file of the policy"},
		"rekey":                        {code: 2, names: "--new-key-file", next: "openssl rand -base64 32"},
		"completion tcsh":              {code: 2, names: `"tcsh"`, next: "there are: bash, fish, powershell, zsh"},
		"endpoints update X":           {code: 2, names: "name what to change", next: "--address"},
		"tenants update acme":          {code: 2, names: "name what to change", next: "--uid or --name"},
		"event-types update t":         {code: 2, names: "name what to change", next: "--description, --schema or --example"},
		"alerts channels update ach_1": {code: 2, names: "nothing to change", next: "flags of breakwater alerts channels update"},
		// Values that are none.
		"send a --count=x":                                      {code: 2, names: "--count", next: "see: breakwater send --help"},
		"send a --count=0":                                      {code: 2, names: "--count", next: "must be at least 1"},
		"send a --count=2 --rate=fast":                          {code: 2, names: "--rate", next: "such as 20/s"},
		"send a --delay=15":                                     {code: 2, names: "--delay", next: "must be a duration such as"},
		"send a --wait=0s":                                      {code: 2, names: "--wait", next: "more than 0"},
		"send a --timeout=soon":                                 {code: 2, names: "--timeout", next: "see: breakwater send --help"},
		"send a --timeout=0s":                                   {code: 2, names: "--timeout", next: "must be more than 0"},
		"send a -d {":                                           {code: 2, names: "-d", next: "--content-type"},
		"send a -d @" + missing:                                 {code: 2, names: "-d: open " + missing, next: "no such file"},
		"send order..paid":                                      {code: 5, names: "type", next: "segments of letters"},
		"send a --delay=31d":                                    {code: 5, names: "delay", next: "between 0s and 30d"},
		"endpoints create ftp://example.com/":                   {code: 5, names: "url", next: "must use http or https"},
		"endpoints create nonsense":                             {code: 5, names: "url", next: "must"},
		"endpoints create http://169.254.169.254/":              {code: 5, names: "url", next: "must not lead to this address"},
		"endpoints create https://example.com/ --header K":      {code: 2, names: "--header", next: "must be NAME=VALUE"},
		"endpoints create https://example.com/ --header Host=x": {code: 5, names: "headers.Host", next: "reserved"},
		"endpoints create https://example.com/ --signature foo": {code: 5, names: "signatures[0].scheme", next: "must be one of standard"},
		"endpoints create https://example.com/ --preset qick":   {code: 5, names: `"qick"`, next: "known: default"},
		"endpoints create https://example.com/ --filter type+":  {code: 5, names: "filter", next: "at character 5"},
		"endpoints create https://example.com/ --types a..b":    {code: 5, names: "types[0]", next: "must"},
		"endpoints create https://example.com/ --body xml":      {code: 5, names: "body", next: "must be one of payload"},
		"endpoints create https://example.com/ --uid ep_x":      {code: 5, names: "uid", next: "must not start with ep_"},
		"endpoints rotate-secret X --overlap long":              {code: 2, names: "--overlap", next: "must be a duration such as"},
		"endpoints rotate-secret X --overlap 8d":                {code: 5, names: "overlap", next: "between"},
		"endpoints stats X --window 3h":                         {code: 2, names: "--window", next: "must be one of 15m"},
		"endpoints test X -d {":                                 {code: 2, names: "-d", next: "not valid JSON"},
		"deliveries list --status ded":                          {code: 2, names: "--status", next: "known: pending"},
		"deliveries list --since yesterday":                     {code: 2, names: "--since", next: "such as 24h or 7d"},
		"deliveries list --endpoint shop":                       {code: 2, names: "--endpoint", next: "endpoints list"},
		"deliveries list --limit 0":                             {code: 2, names: "--limit", next: "must be at least 1"},
		"tail --kind second":                                    {code: 2, names: "--kind", next: "known: first"},
		"tail --limit=-1":                                       {code: 2, names: "--limit", next: "between 0 and 10000"},
		"lanes --state half":                                    {code: 2, names: "--state", next: "must be open or closed"},
		"replay --all --rate=-1":                                {code: 2, names: "--rate", next: "must be at least 1"},
		"replay --all --rate 10 --max-rate 5":                   {code: 2, names: "--max-rate", next: "at least the rate of 10"},
		"replay dlv_x":                                          {code: 5, names: "delivery_ids[0]", next: "13 characters"},
		"replay --all --status pending":                         {code: 5, names: "statuses", next: "delivered anyway"},
		"tenants portal-link acme --ttl 1s":                     {code: 5, names: "ttl", next: "from 5m to 24h"},
		"keys create --scope all":                               {code: 5, names: "scope", next: "must be one of admin"},
		"keys create --expires soon":                            {code: 2, names: "--expires", next: "such as 90d"},
		"alerts list --severity loud":                           {code: 2, names: "--severity", next: "page"},
		"alerts channels create pigeon":                         {code: 5, names: "kind", next: "must be one of log"},
		"alerts channels create webhook":                        {code: 5, names: "url", next: "must not be empty"},
		"alerts channels create slack http://a/ http://b/":      {code: 2, names: "URL", next: "give one URL"},
		"policies create x --file " + missing:                   {code: 2, names: "--file", next: "no such file"},
		"policies create x --file " + badYAML:                   {code: 5, names: `policy.stoore: unknown key "stoore"`, next: "known: preset"},
		"event-types create t --schema " + missing:              {code: 2, names: "--schema", next: "no such file"},
		"event-types create t --schema " + notJSON:              {code: 2, names: "--schema", next: "is not valid JSON"},
		"inspect foo":                                           {code: 2, names: `"foo"`, next: "want evt_, dlv_"},
		"curl foo":                                              {code: 2, names: `"foo"`, next: "dlv_..."},
		"listen 0":                                              {code: 2, names: `"0"`, next: "a port such as 3000"},
		"listen 3000 --path hook":                               {code: 2, names: "--path", next: "must begin with /"},
		"listen 3000 --types a..b":                              {code: 2, names: "--types", next: "a..b"},
		"verify --tolerance=0s":                                 {code: 2, names: "--tolerance", next: "such as 5m"},
		"simulate --policy lwa":                                 {code: 2, names: "--policy", next: "did you mean law?"},
		"simulate --name bsae":                                  {code: 2, names: "--name", next: "did you mean base?"},
		"simulate --set all":                                    {code: 2, names: "--set", next: "known: "},
		"simulate --assert fast":                                {code: 2, names: "--assert", next: "such as recrashes==0"},
		"simulate --seeds 0":                                    {code: 2, names: "--seeds", next: "between 1 and 100000"},
		"demo --rate 1":                                         {code: 2, names: "--rate", next: "from 5 to 100"},
		"bench --only sqlit":                                    {code: 2, names: "--only", next: "did you mean sqlite?"},
		"export --what keys":                                    {code: 2, names: "--what", next: "must be config, dead or events"},
		"import " + missing:                                     {code: 2, names: "FILE: open " + missing, next: "no such file"},
		// Things that are not there.
		"endpoints get ep_0000000000000":        {code: 3, names: "endpoint ep_0000000000000 of tenant default", next: "see: breakwater endpoints list"},
		"--tenant nope endpoints list":          {code: 3, names: "tenant nope", next: "see: breakwater tenants list"},
		"--tenant nope send a":                  {code: 3, names: "tenant nope", next: "see: breakwater tenants list"},
		"--tenant acme endpoints get X":         {code: 3, names: "of tenant acme", next: "see: breakwater --tenant acme endpoints list"},
		"--tenant= endpoints list":              {code: 2, names: "--tenant", next: "see: breakwater tenants list"},
		"--tenant - send a":                     {code: 2, names: "tenant", next: "see: breakwater tenants list"},
		"endpoints delete ..":                   {code: 2, names: `".."`, next: "must be an id"},
		"deliveries retry dlv_1 dlv_2":          {code: 3, names: "dlv_1", next: "see: breakwater deliveries list"},
		"replay show rpl_0000000000000":         {code: 3, names: "replay rpl_0000000000000", next: "see: breakwater replay list"},
		"alerts ack alr_0000000000000":          {code: 3, names: "alert alr_0000000000000", next: "see: breakwater alerts list"},
		"keys revoke key_0000000000000":         {code: 3, names: "key key_0000000000000", next: "see: breakwater keys list"},
		"tenants get nope":                      {code: 3, names: "tenant nope", next: "see: breakwater tenants list"},
		"policies delete nix":                   {code: 3, names: "policy nix", next: "see: breakwater policies list"},
		"event-types get nix":                   {code: 3, names: "event type nix", next: "see: breakwater event-types list"},
		"inspect evt_0000000000000":             {code: 3, names: "event evt_0000000000000", next: "see: breakwater --tenant - deliveries list"},
		"alerts channels get ach_0000000000000": {code: 3, names: "alert channel ach_0000000000000", next: "alerts channels list"},
		"tenants portal-link nope":              {code: 3, names: "tenant nope", next: "see: breakwater tenants list"},
		"export --tenant nope":                  {code: 3, names: "tenant nope", next: "see: breakwater tenants list"},
		// Things that may not be, or not now.
		"endpoints probe X":                 {code: 5, names: "is closed", next: "see: breakwater inspect ep_"},
		"deliveries cancel D":               {code: 5, names: "is delivered", next: "see: breakwater inspect dlv_"},
		"replay":                            {code: 5, names: "all", next: "name deliveries or a filter such as --endpoint"},
		"tenants create --uid default":      {code: 5, names: "uid", next: "choose another; see: breakwater tenants list"},
		"tenants delete default":            {code: 5, names: "default tenant", next: "cannot be deleted"},
		"tenants delete acme --force":       {code: 2, names: "tenant acme", next: "Say so with --yes"},
		"dead discard --all":                {code: 2, names: "dead letters", next: "Say so with --yes"},
		"dead discard":                      {code: 2, names: "deliveries", next: "or --all"},
		"dead discard dlv_1 --reason x":     {code: 2, names: "deliveries or filters", next: "not both"},
		"send a --count=2 --wait":           {code: 2, names: "--wait", next: "one event only"},
		"simulate --rate 1 --load 0.5":      {code: 2, names: "--rate", next: "only one of them at a time"},
		"verify --headers - --body -":       {code: 2, names: "--body", next: "only one of --headers and --body"},
		"export --with-secrets --what dead": {code: 2, names: "--with-secrets", next: "goes with --what config"},
		"listen http://a/b --path /c":       {code: 2, names: "--path", next: "use one of them"},
		// Keys and servers.
		"tenants list --api-key-file " + missing:  {code: 2, names: "--api-key-file", next: "no such file"},
		"tenants list --api-key-file " + dir:      {code: 2, names: "--api-key-file", next: "is a directory"},
		"tenants list --api-key-file " + emptyKey: {code: 2, names: "--api-key-file", next: "breakwater keys create"},
		"lanes":                                {code: 2, names: "BREAKWATER_API_KEY_FILE", next: "not both", env: []string{"BREAKWATER_API_KEY=a", "BREAKWATER_API_KEY_FILE=b"}},
		"keys list":                            {code: 4, names: "a valid key is needed", next: "--api-key-file", env: []string{"BREAKWATER_API_KEY=bw_wrong"}},
		"keys create --api-key-file " + reader: {code: 4, names: "tenant:read", next: "breakwater keys create --scope admin"},
		"endpoints create http://a/ --api-key-file " + reader:    {code: 4, names: "tenant:read", next: "breakwater keys create --scope tenant:write --tenant default"},
		"send a --api-key-file " + reader:                        {code: 4, names: "tenant:read", next: "breakwater keys create --scope tenant:send --tenant default"},
		"--tenant acme deliveries list --api-key-file " + sender: {code: 4, names: "tenant:send", next: "breakwater keys create --scope tenant:read --tenant acme"},
		"deliveries retry D --api-key-file " + reader:            {code: 4, names: "tenant:read", next: "--scope tenant:write"},
		"health --url localhost:80":                              {code: 2, names: "--url", next: "starts with http:// or https://"},
		"health --url " + closed.URL:                             {code: 6, names: strings.TrimPrefix(closed.URL, "http://"), next: "start one with: breakwater serve --dev"},
		"tenants list --url http://breakwater.invalid":           {code: 6, names: "breakwater.invalid", next: "--url"},
		// Settings of a server.
		"serve --listen 127.0.0.1:0":                           {code: 1, names: "breakwater.lock", next: "name another folder with --data-dir"},
		"serve --data-dir " + dir + "/own --listen " + address: {code: 1, names: address, next: "name another address with --listen"},
		"sink --listen " + address:                             {code: 1, names: address, next: "name another address with --listen"},
		"config check":                                         {code: 2, names: "BREAKWATER_LISTN", next: "did you mean BREAKWATER_LISTEN?", env: []string{"BREAKWATER_LISTN=:1"}},
		"config print":                                         {code: 2, names: "listen (BREAKWATER_LISTEN)", next: "must be", env: []string{"BREAKWATER_LISTEN=x"}},
		"serve --store-batch=0":                                {code: 2, names: "store.batch (--store-batch)", next: "must be 1 to 256"},
		"serve --config " + missing:                            {code: 2, names: missing, next: "no such file"},
		"serve --config " + badYAML:                            {code: 2, names: "stoore", next: "did you mean store.batch?"},
		"migrate status --database-url mysql://x":              {code: 2, names: "database_url", next: "postgres"},
		"serve --egress-allow-cidr 10.0.0.0":                   {code: 2, names: "--egress-allow-cidr", next: "did you mean --allow-cidr?"},
		"config check --allow-cidr 10.0.0.300":                 {code: 2, names: "egress.allow_cidr", next: "such as 10.0.0.0/8"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			w.args = words(line)
			for i, word := range w.args {
				switch word {
				case "X":
					w.args[i] = endpoint
				case "D":
					w.args[i] = delivered
				}
			}
			w.check(t, l.environ)
		})
	}
}

// TestLoopbackIsRefused: who tries it at home without --dev learns which flag is missing.
func TestLoopbackIsRefused(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(t.TempDir(), "data")
	banner, stop := startServer(t, dataDir, "--dev=false")
	defer stop()
	environ := []string{"BREAKWATER_URL=" + regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(banner), "BREAKWATER_DATA_DIR=" + dataDir}
	waitReady(t, environ)
	for _, url := range []string{"http://127.0.0.1:9000/", "http://localhost:9000/", "http://[::1]:9000/"} {
		w := wrong{args: []string{"endpoints", "create", url}, code: 5, names: "url", next: "start the server with --dev"}
		w.check(t, environ)
	}
	w := wrong{args: []string{"endpoints", "create", "http://10.0.0.1/"}, code: 5, names: "url", next: "--allow-cidr"}
	w.check(t, environ)
}
