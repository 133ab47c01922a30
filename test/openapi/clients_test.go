package openapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/breakwaterhq/breakwater/test/program"
)

// TestGoClient generates a client, compiles it with a program that uses it, and runs it.
func TestGoClient(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	dir := t.TempDir()
	copyFiles(t, dir, "testdata/golang/go.mod", "testdata/golang/go.sum", "testdata/golang/main.go")
	config, err := filepath.Abs("testdata/golang/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	must(t, filepath.Join("..", ".."), "go", "tool", "-modfile=tools/clients/go.mod", "oapi-codegen",
		"-config", config, "-o", filepath.Join(dir, "client.gen.go"), world.document)
	must(t, dir, "go", "build", "-o", "client", ".")
	checkReport(t, must(t, dir, filepath.Join(dir, "client"), world.server.URL, program.AdminKey, world.sink.URL))
}

// TestTypeScriptClient does the same, as strictly as the compiler can.
func TestTypeScriptClient(t *testing.T) {
	t.Parallel()
	packages := node(t)
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, dir, "testdata/typescript/main.ts", "testdata/typescript/tsconfig.json", "testdata/typescript/package.json")
	must(t, dir, tool(packages, "openapi-typescript"), world.document, "--output", "schema.d.ts")
	must(t, dir, tool(packages, "tsc"), "--project", ".")
	checkReport(t, must(t, dir, "node", filepath.Join("out", "main.js"), world.server.URL, program.AdminKey, world.sink.URL))
}

// checkReport compares what a client says with what the server says without one.
func checkReport(t *testing.T, text string) {
	t.Helper()
	var r struct {
		Tenant   string   `json:"tenant"`
		Endpoint string   `json:"endpoint"`
		Delivery string   `json:"delivery"`
		Events   []string `json:"events"`
		Pages    int      `json:"pages"`
		NotFound string   `json:"not_found"`
		Invalid  string   `json:"invalid"`
		Field    string   `json:"field"`
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if r.NotFound != "not_found" || r.Invalid != "url_blocked" || r.Field != "url" {
		t.Errorf("problems %q, %q at %q; want not_found, url_blocked at url", r.NotFound, r.Invalid, r.Field)
	}
	var delivery struct{ ID, Endpoint, Status string }
	read(t, "/v1/tenants/"+r.Tenant+"/deliveries/"+r.Delivery, &delivery)
	if delivery.ID == "" || delivery.Endpoint != r.Endpoint || delivery.Status != "delivered" {
		t.Errorf("the delivery is %+v; the client has %s", delivery, text)
	}
	var list struct{ Data []struct{ ID string } }
	read(t, "/v1/tenants/"+r.Tenant+"/events?limit=250", &list)
	var events []string
	for _, e := range list.Data {
		events = append(events, e.ID)
	}
	if len(events) != 5 || !slices.Equal(events, r.Events) || r.Pages != 3 {
		t.Errorf("the client read %v in %d pages; want %v in 3", r.Events, r.Pages, events)
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	body, err := get(t.Context(), path)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
