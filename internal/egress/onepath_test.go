package egress_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outbound are the names of the standard library that open connections. A
// trailing star stands for any ending.
var outbound = map[string][]string{
	"net/http":   {"Get", "Post", "Head", "PostForm", "DefaultClient", "DefaultTransport", "Client", "Transport"},
	"net":        {"Dial*"},
	"crypto/tls": {"Dial*"},
	"net/smtp":   {"*"},
	"net/rpc":    {"Dial*"},
}

// mayDial are the paths that may use them, each for a reason: a database of
// the operator, his mail server, a client of our own API, and tools that are no
// part of serving.
var mayDial = []string{
	"internal/egress/",
	"internal/store/postgres/",
	"internal/notify/mailer/",
	"internal/trace/", // to the collector that the operator has set
	"internal/cli/",
	"internal/lab/",
	"test/",
}

// traps are fields of the standard library that switch a defence off when they
// are set: the cap on headers, the guard for https, the guard at connect.
var traps = []string{"Got1xxResponse", "DialTLS", "DialTLSContext", "ControlContext"}

// outboundUses returns where a file breaks the rule of the one way out.
func outboundUses(name string, src any) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	report := func(at token.Pos, what string) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(at), what))
	}
	exempt := strings.HasSuffix(name, "_test.go") ||
		slices.ContainsFunc(mayDial, func(p string) bool { return strings.HasPrefix(name, p) })
	imports := importNames(file)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			if n.Name != nil && n.Name.Name == "." && outbound[importPath(n)] != nil && !exempt {
				report(n.Pos(), "dot import of "+importPath(n))
			}
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok && !exempt && isOutbound(imports[pkg.Name], n.Sel.Name) {
				report(n.Pos(), imports[pkg.Name]+"."+n.Sel.Name)
			}
		case *ast.Ident:
			if slices.Contains(traps, n.Name) {
				report(n.Pos(), n.Name+" switches a defence off")
			}
		}
		return true
	})
	return found, nil
}

func isOutbound(pkg, name string) bool {
	return slices.ContainsFunc(outbound[pkg], func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

// importNames maps the names that a file gives to its imports to their paths.
func importNames(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		p := importPath(spec)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

func TestThereIsOneWayOut(t *testing.T) {
	t.Parallel()
	root := moduleRoot(t)
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && file != root || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		seen++
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := outboundUses(filepath.ToSlash(name), src)
		if err != nil {
			t.Logf("skipped: %v", err) // the compiler complains about it
		}
		for _, use := range found {
			t.Errorf("%s: outbound connections belong to internal/egress", use)
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("walked over %d files: %v", seen, err)
	}
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// The rule is worth nothing if the test does not fire.
func TestPlantedWaysOutAreFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, imports, body string
		want                int
	}{
		"http.Get":          {"internal/watch/a.go", `"net/http"`, `http.Get("http://169.254.169.254")`, 1},
		"renamed import":    {"internal/watch/a.go", `web "net/http"`, `web.Post("", "", nil)`, 1},
		"dot import":        {"internal/watch/a.go", `. "net/http"`, `Get("")`, 1},
		"default client":    {"internal/watch/a.go", `"net/http"`, `http.DefaultClient.Do(nil)`, 1},
		"own client":        {"internal/watch/a.go", `"net/http"`, `_ = http.Client{}`, 1},
		"new client":        {"internal/watch/a.go", `"net/http"`, `_ = new(http.Client)`, 1},
		"own transport":     {"receiver/a.go", `"net/http"`, `_ = &http.Transport{}`, 1},
		"default transport": {"internal/watch/a.go", `"net/http"`, `_ = http.DefaultTransport`, 1},
		"net.Dial":          {"cmd/breakwater/a.go", `"net"`, `net.DialTimeout("tcp", "", 0)`, 1},
		"net.Dialer":        {"internal/api/a.go", `"net"`, `_ = net.Dialer{}`, 1},
		"tls.Dial":          {"internal/api/a.go", `"crypto/tls"`, `tls.Dial("tcp", "", nil)`, 1},
		"mail":              {"internal/watch/a.go", `"net/smtp"`, `smtp.SendMail("", nil, "", nil, nil)`, 1},
		"1xx hook":          {"internal/egress/a.go", `"net/http/httptrace"`, `_ = httptrace.ClientTrace{Got1xxResponse: nil}`, 1},
		"1xx hook in tests": {"internal/egress/a_test.go", `"net/http/httptrace"`, `var c httptrace.ClientTrace; c.Got1xxResponse = nil`, 1},
		"TLS dialer":        {"internal/egress/a.go", `"net/http"`, `_ = http.Transport{DialTLSContext: nil}`, 1},
		"second control":    {"internal/egress/a.go", `"net"`, `_ = net.Dialer{ControlContext: nil}`, 1},
		"a server":          {"internal/api/a.go", `"net/http"`, `_ = http.Server{}; _ = http.StatusOK`, 0},
		"a listener":        {"internal/app/a.go", `"net"`, `net.Listen("tcp", "")`, 0},
		"other Get":         {"internal/api/a.go", `"net/url"`, `_ = url.Values{}.Get("x")`, 0},
		"egress itself":     {"internal/egress/a.go", `"net/http"`, `_ = http.Transport{}`, 0},
		"a test":            {"internal/api/a_test.go", `"net/http"`, `http.Get("")`, 0},
		"a client command":  {"internal/cli/a.go", `"net/http"`, `_ = http.Client{}`, 0},
		"similar path":      {"internal/clients/a.go", `"net/http"`, `_ = http.Client{}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := "package a\nimport " + tc.imports + "\nfunc f() {\n" + tc.body + "\n}\n"
			found, err := outboundUses(tc.file, src)
			if err != nil || len(found) != tc.want {
				t.Errorf("found %v (%v), want %d", found, err, tc.want)
			}
		})
	}
}
