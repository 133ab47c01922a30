package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// interpolated replaces ${NAME:-default} as compose does when nothing is set.
func interpolated(text string) string {
	return regexp.MustCompile(`\$\{\w+:-([^}]*)\}`).ReplaceAllString(text, "$1")
}

func TestComposeStartsTwoNodesOnPostgres(t *testing.T) {
	t.Parallel()
	text := interpolated(read(t, "deploy/compose/compose.yaml"))
	file := readYAML(t, text)
	services, _ := file["services"].(map[string]any)
	names := map[string]bool{}
	for _, node := range []string{"breakwater-1", "breakwater-2"} {
		var environ []string
		settings, _ := at(services, node, "environment").(map[string]any)
		for name, value := range settings {
			if value == nil {
				value = ""
			}
			environ = append(environ, fmt.Sprintf("%s=%v", name, value))
		}
		checkSettings(t, environ, "--listen=:8080")
		names[fmt.Sprint(settings["BREAKWATER_NODE_NAME"])] = true
		for name, want := range map[string]any{"read_only": true, "stop_grace_period": "60s", "user": "65532:65532"} {
			if got := at(services, node, name); got != want {
				t.Errorf("%s: %s is %v, want %v", node, name, got, want)
			}
		}
		for _, secret := range words(at(services, node, "secrets")) {
			if !strings.Contains(strings.Join(environ, " "), "/run/secrets/"+secret) {
				t.Errorf("%s: no setting names the secret %s", node, secret)
			}
		}
		if at(services, node, "depends_on", "postgres", "condition") != "service_healthy" {
			t.Errorf("%s does not wait for the database", node)
		}
	}
	if len(names) != 2 {
		t.Errorf("the nodes share a name: %v", names)
	}
	if ports := words(at(services, "proxy", "ports")); !slices.Equal(ports, []string{"127.0.0.1:8080:8080"}) {
		t.Errorf("ports of the proxy: %q", ports)
	}
	if profiles := words(at(services, "sink", "profiles")); !slices.Equal(profiles, []string{"demo"}) {
		t.Errorf("profiles of the sink: %q", profiles)
	}
	command := words(at(services, "sink", "command"))
	if code, out := breakwater(nil, append(command, "--help")...); code != 0 {
		t.Errorf("%q: exit code %d\n%s", command, code, out)
	}
	checkImages(t, services)
	checkFiles(t, file)
}

func checkImages(t *testing.T, services map[string]any) {
	t.Helper()
	for name := range services {
		image, _ := at(services, name, "image").(string)
		if image == "" || strings.Contains(image, "/") || !strings.Contains(image, ":") {
			t.Errorf("%s: image %q must have a tag and no registry", name, image)
		}
	}
}

// checkFiles: what the file mounts and builds from is there, but for the secrets,
// which make-secrets makes.
func checkFiles(t *testing.T, file map[string]any) {
	t.Helper()
	folder := filepath.Join(root, "deploy", "compose")
	for _, name := range []string{"haproxy.cfg", filepath.Join(at(file, "services", "breakwater-1", "build", "context").(string), "Dockerfile")} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	script, err := os.ReadFile(filepath.Join(folder, "make-secrets"))
	if err != nil {
		t.Fatal(err)
	}
	copied := t.TempDir()
	run := filepath.Join(copied, "make-secrets")
	if err := os.WriteFile(run, script, 0o755); err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for range 2 { // the second run keeps what the first one made
		if out, err := exec.Command("sh", run).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		secrets, _ := file["secrets"].(map[string]any)
		for name := range secrets {
			path := at(secrets, name, "file").(string)
			content, err := os.ReadFile(filepath.Join(copied, path))
			if err != nil || len(content) == 0 {
				t.Fatalf("secret %s: %v, %d bytes", name, err, len(content))
			}
			if before, ok := made[name]; ok && before != string(content) {
				t.Errorf("secret %s was replaced", name)
			}
			made[name] = string(content)
		}
	}
	var environ []string
	for _, name := range []string{"database_url", "encryption_key", "admin_key"} {
		environ = append(environ, "BREAKWATER_"+strings.ToUpper(name)+"_FILE="+filepath.Join(copied, "secrets", name))
	}
	if code, out := breakwater(environ, "config", "check"); code != 0 {
		t.Errorf("secrets that were made: exit code %d\n%s", code, out)
	}
}

func TestProxyAsksForReadinessOfBothNodes(t *testing.T) {
	t.Parallel()
	text := read(t, "deploy/compose/haproxy.cfg")
	for _, line := range []string{
		"bind :8080", "option httpchk GET /readyz", "server breakwater-1 breakwater-1:8080", "server breakwater-2 breakwater-2:8080", "option forwardfor",
		"retry-on conn-failure",
	} {
		if !regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(line) + `$`).MatchString(text) {
			t.Errorf("no line %q", line)
		}
	}
}
