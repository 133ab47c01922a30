package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// empty answers like a server that has nothing but the default tenant.
func empty(t *testing.T) *server {
	t.Helper()
	const none = `{"data":[],"next_cursor":null}`
	return newServer(t, map[string][]answer{
		"GET /v1/policies":       always(200, none),
		"GET /v1/alert-channels": always(200, `{"data":[{"id":"ach_1","name":"chat","kind":"slack","tenant":null,"url":"https://chat.example.com/***","version":1,"send_resolved":true}],"next_cursor":null}`),
		"GET /v1/tenants":        always(200, `{"data":[{"id":"ten_1","uid":"default","name":"Default","version":3}],"next_cursor":null}`),
		"GET /v1/tenants/ten_1/endpoints": always(200,
			`{"data":[{"id":"ep_1","uid":"e","url":"https://example.com/","status":"active","types":["*"],"headers":{"X-Key":"***"},"version":2}],"next_cursor":null}`),
		"PATCH /v1/tenants/ten_1": always(412, `{"detail":"it has version 4","code":"version_mismatch"}`),
		"POST /v1/policies":       always(201, `{"name":"p"}`),
		"POST /v1/tenants":        always(409, `{"detail":"uid is taken","code":"uid_taken"}`),
		"GET /v1/tenants/-/events": always(400,
			`{"detail":"query.since must be a time or a duration","code":"invalid_parameter","errors":[{"path":"query.since","message":"must be a time or a duration"}]}`),
		"GET /v1/tenants/gone": always(404, `{"detail":"not found","code":"not_found"}`),
	})
}

// TestWrongInputOfOperators: what people get wrong when they export, import, change
// keys or look whether all is well. The exit code tells what kind of mistake it is,
// the text names the place and what to do.
func TestWrongInputOfOperators(t *testing.T) {
	t.Parallel()
	s := empty(t)
	dir := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	goodKey, openKey := write("good.key", key+"\n", 0o600), write("open.key", key, 0o644)
	shortKey, twoKeys := write("short.key", "AAAA", 0o600), write("two.key", key+","+key, 0o600)
	missing := filepath.Join(dir, "missing")
	const tenant, endpoint = "version: 1\ntenants:\n- uid: default\n  name: Default\n", "  endpoints:\n  - uid: e\n    url: https://example.com/\n"
	for name, tc := range map[string]struct {
		file string // on stdin
		args []string
		code int
		want []string // the place, the rule, what to do next
	}{
		"import without a file":              {args: []string{"import"}, code: 2, want: []string{"usage: breakwater import FILE"}},
		"import of two files":                {args: []string{"apply", "a", "b"}, code: 2, want: []string{"usage: breakwater apply FILE"}},
		"import of a file that is not there": {args: []string{"import", missing}, code: 2, want: []string{"FILE: open " + missing}},
		"import of a folder":                 {args: []string{"import", dir}, code: 2, want: []string{dir, "is a directory"}},
		"import of nothing":                  {args: []string{"import", "-"}, code: 2, want: []string{"stdin: is empty", "breakwater export"}},
		"no YAML":                            {file: "a: [", args: []string{"import", "-"}, code: 2, want: []string{"stdin: is not valid YAML: line 1"}},
		"two documents":                      {file: "version: 1\n---\nversion: 1\n", args: []string{"import", "-"}, code: 2, want: []string{"must hold one YAML document"}},
		"a list":                             {file: "- a\n", args: []string{"import", "-"}, code: 2, want: []string{"the file (line 1): must be a mapping"}},
		"no version":                         {file: "tenants: []\n", args: []string{"import", "-"}, code: 2, want: []string{"version: must be 1"}},
		"another version":                    {file: "version: 2\n", args: []string{"import", "-"}, code: 2, want: []string{"version: must be 1"}},
		"unknown section":                    {file: "version: 1\ntenant: []\n", args: []string{"import", "-"}, code: 2, want: []string{"tenant (line 2): unknown field; did you mean tenants?"}},
		"unknown field":                      {file: tenant + endpoint + "    decription: x\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].endpoints[0].decription (line 8): unknown field; did you mean description?"}},
		"repeated field":                     {file: tenant + "  name: x\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].name (line 5): is already there in line 4"}},
		"repeated uid":                       {file: tenant + "- uid: default\n", args: []string{"import", "-"}, code: 2, want: []string{`tenants[1].uid (line 5): "default" is already there in line 3`}},
		"no list":                            {file: "version: 1\ntenants: {a: b}\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants (line 2): must be a list"}},
		"no uid":                             {file: "version: 1\ntenants: [{name: a}]\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].uid (line 2): is required"}},
		"no url":                             {file: tenant + "  endpoints: [{uid: e}]\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].endpoints[0].url (line 5): is required"}},
		"a number for a text":                {file: tenant + endpoint + "    description: 12\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].endpoints[0].description (line 8): must be a text"}},
		"a text for a list":                  {file: tenant + endpoint + "    types: order.*\n", args: []string{"import", "-"}, code: 2, want: []string{"endpoints[0].types (line 8): must be a list of texts"}},
		"no texts in metadata":               {file: tenant + "  metadata: {a: 1}\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].metadata (line 5): must be names with texts"}},
		"not a number":                       {file: tenant + "  policy: {a: .nan}\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].policy.a (line 5)", "put a text into quotes"}},
		"unknown status":                     {file: tenant + endpoint + "    status: off\n", args: []string{"import", "-"}, code: 2, want: []string{`tenants[0].endpoints[0].status: "off" must be active, paused or disabled`}},
		"a hidden header of a new endpoint":  {file: tenant + "  endpoints: [{uid: n, url: u, headers: {X-Key: '***'}}]\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].endpoints[0].headers.X-Key: is hidden (***): put its value into the file"}},
		"a hidden header that is not there":  {file: tenant + endpoint + "    headers: {X-Other: '***'}\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].endpoints[0].headers.X-Other: is hidden"}},
		"a hidden URL of another host":       {file: "version: 1\nalert_channels: [{name: chat, kind: slack, url: 'https://other.example.com/***'}]\n", args: []string{"import", "-"}, code: 2, want: []string{"alert_channels[0].url: is hidden", "put its value into the file"}},
		"a kind that cannot change":          {file: "version: 1\nalert_channels: [{name: chat, kind: email}]\n", args: []string{"import", "-"}, code: 2, want: []string{"alert_channels[0].kind: cannot change", "another name"}},
		"an id that is not there":            {file: "version: 1\ntenants: [{id: ten_9, name: x}]\n", args: []string{"import", "-"}, code: 2, want: []string{"tenants[0].uid: is required: the server has no tenant ten_9"}},
		"prune without a person":             {file: tenant + "  endpoints: []\n", args: []string{"import", "-", "--prune"}, code: 2, want: []string{"This deletes 1 object for good. Say so with --yes."}},
		"refused by the server":              {file: "version: 1\ntenants: [{uid: new}]\n", args: []string{"import", "-"}, code: 5, want: []string{"tenant new (tenants[0], line 2): uid is taken (uid_taken)"}},
		"changed meanwhile":                  {file: "version: 1\ntenants: [{uid: default, name: Other}]\n", args: []string{"import", "-"}, code: 5, want: []string{"tenant default (tenants[0], line 2): it has version 4 (version_mismatch)"}},
		"partly refused":                     {file: "version: 1\npolicies: [{name: p}]\ntenants: [{uid: new, endpoints: [{uid: e, url: u}]}]\n", args: []string{"import", "-", "--quiet"}, code: 7, want: []string{"uid is taken", "2 of 3 changes", "run again"}},

		"export of something else":     {args: []string{"export", "--what=keys"}, code: 2, want: []string{`--what: "keys" must be config, dead or events`}},
		"since of a configuration":     {args: []string{"export", "--since=1h"}, code: 2, want: []string{"--since: goes with --what dead or events"}},
		"secrets of events":            {args: []string{"export", "--what=events", "--with-secrets"}, code: 2, want: []string{"--with-secrets: goes with --what config"}},
		"a time that is none":          {args: []string{"export", "--what=events", "--since=soon"}, code: 2, want: []string{"--since must be a time or a duration"}},
		"a folder that is not there":   {args: []string{"export", "-o", filepath.Join(missing, "x")}, code: 2, want: []string{"--output: open"}},
		"export of no tenant":          {args: []string{"export", "--tenant=gone"}, code: 3, want: []string{"read tenant gone: not found"}},
		"export with too many words":   {args: []string{"export", "config"}, code: 2, want: []string{"usage: breakwater export"}},
		"rekey without a key":          {args: []string{"rekey"}, code: 2, want: []string{"--new-key-file: name the file of the new key", "openssl rand -base64 32"}},
		"rekey without the file":       {args: []string{"rekey", "--new-key-file=" + missing}, code: 2, want: []string{missing, "no such file"}},
		"rekey to half a key":          {args: []string{"rekey", "--new-key-file=" + shortKey}, code: 1, want: []string{shortKey, "standard base64 of 32 bytes"}},
		"rekey to a key of everybody":  {args: []string{"rekey", "--new-key-file=" + openKey}, code: 1, want: []string{"mode 0644", "chmod 600 " + openKey}},
		"rekey to two keys":            {args: []string{"rekey", "--new-key-file=" + twoKeys}, code: 1, want: []string{twoKeys + ": must hold one key"}},
		"rekey without the old key":    {args: []string{"rekey", "--new-key-file=" + goodKey, "--data-dir=" + dir}, code: 2, want: []string{"secret.key", "encryption_key", "--data-dir"}},
		"rekey with wrong settings":    {args: []string{"rekey", "--new-key-file=" + goodKey, "--lease-ttl=1h"}, code: 2, want: []string{"lease.ttl (--lease-ttl)"}},
		"rekey of a store without one": {args: []string{"rekey", "--new-key-file=" + goodKey, "--encryption-key-file=" + goodKey, "--data-dir=" + dir}, code: 2, want: []string{"find store", "--data-dir"}},
		"doctor with wrong settings":   {args: []string{"doctor", "--store-batch=0"}, code: 8, want: []string{"1 of 1 check"}},
		"doctor with a word":           {args: []string{"doctor", "now"}, code: 2, want: []string{"usage: breakwater doctor"}},
		"doctor with an unknown flag":  {args: []string{"doctor", "--reech=x"}, code: 2, want: []string{"did you mean --reach?"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runWith([]string{"BREAKWATER_URL=" + s.URL, "BREAKWATER_API_KEY=bw_test"}, tc.file, tc.args...)
			if got.code != tc.code {
				t.Errorf("exit %d, want %d", got.code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, got.stderr)
				}
			}
		})
	}
}
