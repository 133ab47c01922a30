package archtest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/archtest"
)

func TestThisModule(t *testing.T) {
	t.Parallel()
	violations, err := archtest.Check(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range violations {
		t.Error(v)
	}
}

const doc = "// Package x is planted.\n"

const door = "package x\n\nimport \"" + archtest.Module + "/internal/store/visible\"\n\n"

// TestPlanted puts one violation into an otherwise empty module and expects it
// to be the only one found.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file   string
		source string
		want   []string // rules
	}{
		"clean":                  {"internal/hook/x.go", doc + "package x\n\nimport \"time\"\n\nvar D = time.Second\n", nil},
		"unknown package":        {"internal/util/x.go", doc + "package x\n", []string{"unknown package"}},
		"no package comment":     {"internal/hook/x.go", "package x\n", []string{"package comment"}},
		"arrow up":               {"internal/hook/x.go", doc + "package x\n\nimport _ \"" + archtest.Module + "/internal/store\"\n", []string{"import"}},
		"sibling":                {"internal/api/x.go", doc + "package x\n\nimport _ \"" + archtest.Module + "/internal/ingest\"\n", []string{"import"}},
		"nested sibling":         {"internal/store/sqlite/x.go", doc + "package x\n\nimport _ \"" + archtest.Module + "/internal/store/postgres\"\n", []string{"import"}},
		"library":                {"receiver/x.go", doc + "package x\n\nimport _ \"github.com/spf13/cobra\"\n", []string{"import"}},
		"library by prefix":      {"internal/cli/x.go", doc + "package x\n\nimport _ \"github.com/spf13/cobra-cli\"\n", []string{"import"}},
		"dot import":             {"internal/app/x.go", doc + "package x\n\nimport . \"strings\"\n\nvar S = Fields(\"\")\n", []string{"import"}},
		"allowed import":         {"internal/policy/x.go", doc + "package x\n\nimport _ \"" + archtest.Module + "/internal/hook\"\n", nil},
		"clock in lane":          {"internal/lane/x.go", doc + "package x\n\nimport \"time\"\n\nvar T = time.Now()\n", []string{"clock"}},
		"clock as a value":       {"internal/policy/x.go", doc + "package x\n\nimport \"time\"\n\nvar F = time.Since\n", []string{"clock"}},
		"clock under other name": {"internal/sign/x.go", doc + "package x\n\nimport clock \"time\"\n\nfunc F() { clock.Sleep(1) }\n", []string{"clock"}},
		"timer":                  {"internal/lane/x.go", doc + "package x\n\nimport \"time\"\n\nvar T = time.NewTimer(1)\n", []string{"clock"}},
		"clock in the shell":     {"internal/dispatch/x.go", doc + "package x\n\nimport \"time\"\n\nvar T = time.Now()\n", nil},
		"log":                    {"internal/hook/x.go", doc + "package x\n\nimport _ \"log\"\n", []string{"pure"}},
		"slog":                   {"internal/hook/x.go", doc + "package x\n\nimport \"log/slog\"\n\nvar F = slog.Info\n", []string{"log"}},
		"masked in logs":         {"internal/sign/x.go", doc + "package x\n\nimport \"log/slog\"\n\nvar V slog.LogValuer\n", nil},
		"os":                     {"internal/sign/x.go", doc + "package x\n\nimport _ \"os\"\n", []string{"pure"}},
		"goroutine":              {"internal/lane/x.go", doc + "package x\n\nfunc F() { go F() }\n", []string{"goroutine"}},
		"goroutine in the shell": {"internal/dispatch/x.go", doc + "package x\n\nfunc F() { go F() }\n", nil},
		"global rand":            {"internal/dispatch/x.go", doc + "package x\n\nimport \"math/rand/v2\"\n\nvar N = rand.IntN(3)\n", []string{"random"}},
		"global rand, old":       {"internal/lane/x.go", doc + "package x\n\nimport r \"math/rand\"\n\nvar N = r.Float64\n", []string{"random"}},
		"own rand":               {"internal/app/x.go", doc + "package x\n\nimport \"math/rand/v2\"\n\nvar R = rand.New(rand.NewPCG(1, 2)).IntN(3)\n", nil},
		"http.Get":               {"internal/api/x.go", doc + "package x\n\nimport \"net/http\"\n\nvar F = http.Get\n", []string{"outbound"}},
		"http.Client":            {"internal/dispatch/x.go", doc + "package x\n\nimport \"net/http\"\n\nvar C = &http.Client{}\n", []string{"outbound"}},
		"net.Dial":               {"internal/app/x.go", doc + "package x\n\nimport \"net\"\n\nvar F = net.Dial\n", []string{"outbound"}},
		"http server":            {"internal/app/x.go", doc + "package x\n\nimport \"net/http\"\n\nvar S = http.Server{}\n", nil},
		"egress connects":        {"internal/egress/x.go", doc + "package x\n\nimport \"net/http\"\n\nvar C = &http.Client{}\n", nil},
		"long file":              {"internal/app/x.go", doc + "package x\n" + strings.Repeat("\n", 600), []string{"file size"}},
		"long test":              {"internal/app/x_test.go", "package x_test\n" + strings.Repeat("\n", 600), []string{"file size"}},
		"large package":          {"internal/app/x.go", doc + "package x\n" + strings.Repeat("\n", 4500), []string{"file size", "package size"}},
		"large tool":             {"internal/lab/sink/x.go", doc + "package x\n" + strings.Repeat("\n", 4500), []string{"file size"}},
		"deliveries as text":     {"internal/store/postgres/x.go", doc + "package x\n\nconst q = `SELECT id\nFROM deliveries d`\n", []string{"deliveries"}},
		"deliveries in words":    {"internal/store/postgres/x.go", doc + "package x\n\nconst q = \"list deliveries\"\n", nil},
		"deliveries at the door": {"internal/store/postgres/x.go", doc + door + "const q visible.SQL = `SELECT id FROM deliveries`\n\nvar Q = visible.Defers.Text(q)\n", nil},
		"deliveries let out":     {"internal/store/postgres/x.go", doc + door + "const q visible.SQL = `SELECT id FROM deliveries`\n\nvar Q = string(q)\n", []string{"deliveries"}},
		"leave taken":            {"internal/store/postgres/x.go", doc + door + "var V = visible.Made()\n", []string{"deliveries"}},
		"leave made up":          {"internal/store/postgres/x.go", doc + door + "var V = visible.Rows{}\n", []string{"deliveries"}},
		"leave given":            {"internal/store/postgres/make_visible.go", doc + door + "var V = visible.Made()\n", nil},
		"tests are free":         {"internal/lane/x_test.go", "package x_test\n\nimport (\n\t\"math/rand/v2\"\n\t\"os\"\n)\n\nvar N, D = rand.IntN(3), os.DevNull\n", nil},
		"testdata":               {"internal/lane/testdata/x.go", "package x\n\nimport _ \"os\"\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			plant(t, root, tc.file, tc.source)
			violations, err := archtest.Check(root)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range violations {
				got = append(got, v.Rule)
				if !strings.HasPrefix(v.Pos, filepath.ToSlash(filepath.Dir(tc.file))) {
					t.Errorf("position %q does not name %s", v.Pos, tc.file)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s\n%v", diff, violations)
			}
		})
	}
}

func TestNestedModulesAreLeftAlone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plant(t, root, "tools/go.mod", "module tools\n")
	plant(t, root, "tools/x.go", "package x\n")
	if violations, err := archtest.Check(root); err != nil || len(violations) != 0 {
		t.Errorf("Check = %v, %v; want nothing", violations, err)
	}
}

func plant(t *testing.T, root, name, source string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
}
