package receiver_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestEveryFunctionHasAnExample that is run.
func TestEveryFunctionHasAnExample(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || e.Name() == "export_test.go" {
			continue
		}
		file, err := parser.ParseFile(set, e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(set, files, "github.com/breakwaterhq/breakwater/receiver")
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	check := func(f *doc.Func, of string) {
		functions++
		runs := 0
		for _, e := range f.Examples {
			if e.Output != "" {
				runs++
			}
		}
		if runs == 0 {
			t.Errorf("%s%s has no example that runs", of, f.Name)
		}
	}
	for _, f := range pkg.Funcs {
		check(f, "")
	}
	for _, typ := range pkg.Types {
		for _, f := range typ.Funcs {
			check(f, "")
		}
		for _, m := range typ.Methods {
			if m.Name != "String" {
				check(m, typ.Name+".")
			}
		}
	}
	if functions < 20 {
		t.Errorf("%d functions found; there are more", functions)
	}
}
