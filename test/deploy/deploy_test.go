package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// breakwater runs a command of the product in this process.
func breakwater(environ []string, args ...string) (code int, output string) {
	var out bytes.Buffer
	code = cli.Run(cli.Host{
		Args: args, Environ: environ, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Signals: make(chan os.Signal),
	})
	return code, out.String()
}

// checkSettings lets the product judge variables and flags as it does at a start.
// Files that exist only where it is installed are replaced.
func checkSettings(t *testing.T, environ []string, flags ...string) {
	t.Helper()
	secrets := map[string]string{
		"database": "postgres://breakwater:x@postgres/breakwater", "encryption": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "admin": "bw_0123456789abcdef",
	}
	here := func(path string) string {
		for kind, secret := range secrets {
			if strings.Contains(path, kind) {
				file := filepath.Join(t.TempDir(), kind)
				if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
		}
		t.Errorf("no test knows the secret %s", path)
		return path
	}
	var replaced []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasSuffix(name, "_FILE") {
			value = here(value)
		}
		replaced = append(replaced, name+"="+value)
	}
	if code, out := breakwater(replaced, append([]string{"config", "check"}, flags...)...); code != 0 {
		t.Errorf("settings %q, flags %q: exit code %d\n%s", environ, flags, code, out)
	}
}

func readYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// at follows keys, and indexes of lists, into what YAML gave.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

func words(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, item := range list {
		s, _ := item.(string)
		out = append(out, s)
	}
	return out
}
