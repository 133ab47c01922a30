// Package archtest checks the architecture: who may import whom, and what the
// pure packages must not touch. Its test runs the checks on this module and on
// planted violations, so that a rule that stopped working is noticed.
//
// It reads source files only and knows no types; linters do the rest.
package archtest

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
)

// Module is the import path of the main module.
const Module = "github.com/breakwaterhq/breakwater"

// maxLines is where a file holds more than one idea, maxPackageLines where a
// package lacks inner walls.
const (
	maxLines        = 600
	maxPackageLines = 4500
)

// Violation is one broken rule.
type Violation struct {
	Rule string // e.g. "import", "clock"
	Pos  string // file:line, or the folder of a package
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Pos, v.Rule, v.Text) }

// Check reads every package below root, the folder of the main module, and
// returns what breaks the rules. Nested modules, testdata and hidden folders
// are not looked at.
func Check(root string) ([]Violation, error) {
	folders, err := packages(root)
	if err != nil {
		return nil, err
	}
	var all []Violation
	for _, folder := range folders {
		found, err := checkFolder(root, folder)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// packages lists the folders with Go files, relative to root.
func packages(root string) ([]string, error) {
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || isModule(p)) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") {
			rel, err := filepath.Rel(root, filepath.Dir(p))
			if err != nil {
				return err
			}
			seen[filepath.ToSlash(rel)] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk module: %w", err)
	}
	folders := make([]string, 0, len(seen))
	for folder := range seen {
		folders = append(folders, folder)
	}
	slices.Sort(folders)
	return folders, nil
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// checkFolder checks one package. Tests are free to import and to use what
// they need, but not to grow without end.
func checkFolder(root, folder string) ([]Violation, error) {
	rules, known := allowed[folder]
	var out []Violation
	if !known {
		out = append(out, Violation{"unknown package", folder, "add it, with what it may import, to internal/archtest/rules.go"})
	}
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(folder)))
	if err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	documented, hasCode, lines := false, false, 0
	var files []*file
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		f, err := readFile(root, path.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, f.checkSize()...)
		if strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		hasCode, files = true, append(files, f)
		lines += f.lines
		documented = documented || f.tree.Doc.Text() != ""
		if known {
			out = append(out, f.check(folder, rules)...)
		}
	}
	out = append(out, checkDeliveries(folder, files)...)
	if lines > maxPackageLines && !mayBeLarge(folder) {
		out = append(out, Violation{"package size", folder, fmt.Sprintf("%d lines, at most %d: it needs inner walls", lines, maxPackageLines)})
	}
	if hasCode && !documented {
		out = append(out, Violation{"package comment", folder, "no file says what the package does and does not do"})
	}
	return out, nil
}

// file is one parsed source file.
type file struct {
	name  string // relative to the module
	lines int
	set   *token.FileSet
	tree  *ast.File
	names map[string]string // import path by the name used in the file
}

func readFile(root, name string) (*file, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	f := &file{name: name, lines: strings.Count(string(source), "\n"), set: token.NewFileSet(), names: map[string]string{}}
	f.tree, err = parser.ParseFile(f.set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse source: %w", err)
	}
	for _, spec := range f.tree.Imports {
		p := importPath(spec)
		local := path.Base(p)
		if local == "v2" { // math/rand/v2 is called rand
			local = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		f.names[local] = p
	}
	return f, nil
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil { // the parser accepts no other form
		return spec.Path.Value
	}
	return p
}

func (f *file) at(n ast.Node, rule, format string, args ...any) Violation {
	pos := f.set.Position(n.Pos())
	return Violation{rule, fmt.Sprintf("%s:%d", f.name, pos.Line), fmt.Sprintf(format, args...)}
}

func (f *file) checkSize() []Violation {
	if f.lines <= maxLines {
		return nil
	}
	return []Violation{{"file size", f.name, fmt.Sprintf("%d lines, at most %d: it probably holds two ideas", f.lines, maxLines)}}
}

func (f *file) check(folder string, rules imports) []Violation {
	out := f.checkImports(folder, rules)
	ast.Inspect(f.tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			out = append(out, f.checkSelector(folder, n)...)
		case *ast.GoStmt:
			if pure[folder] {
				out = append(out, f.at(n, "goroutine", "package %s is pure: it starts nothing", folder))
			}
		}
		return true
	})
	return out
}

func (f *file) checkImports(folder string, rules imports) []Violation {
	var out []Violation
	for _, spec := range f.tree.Imports {
		p := importPath(spec)
		if spec.Name != nil && spec.Name.Name == "." {
			out = append(out, f.at(spec, "import", "%s: a dot import hides what is used", p))
		}
		local, ours := strings.CutPrefix(p, Module+"/")
		switch {
		case ours && !slices.Contains(rules.own, local):
			out = append(out, f.at(spec, "import", "%s must not import %s", folder, local))
		case !ours && strings.Contains(strings.Split(p, "/")[0], ".") && !allowsLibrary(rules.libraries, p):
			out = append(out, f.at(spec, "import", "%s must not use the library %s", folder, p))
		case pure[folder] && impure[p]:
			out = append(out, f.at(spec, "pure", "package %s is pure: it must not import %s", folder, p))
		}
	}
	return out
}

func allowsLibrary(libraries []string, p string) bool {
	return slices.ContainsFunc(libraries, func(l string) bool { return p == l || strings.HasPrefix(p, l+"/") })
}

// checkSelector looks at uses of imported packages: time.Now, rand.IntN.
func (f *file) checkSelector(folder string, sel *ast.SelectorExpr) []Violation {
	id, ok := sel.X.(*ast.Ident)
	if !ok {
		return nil
	}
	imported, name := f.names[id.Name], sel.Sel.Name
	switch imported {
	case "math/rand", "math/rand/v2":
		if !ownSource[name] {
			return []Violation{f.at(sel, "random", "%s.%s draws from the global source: pass a *rand.Rand or a number", id.Name, name)}
		}
	case "time":
		if pure[folder] && clock[name] {
			return []Violation{f.at(sel, "clock", "package %s is pure: time.%s must be the caller's", folder, name)}
		}
	case "log/slog":
		if pure[folder] && !slogValue[name] {
			return []Violation{f.at(sel, "log", "package %s is pure: slog.%s is not for it", folder, name)}
		}
	case "net/http", "net", "crypto/tls":
		if outbound[imported][name] && !mayConnect[folder] {
			return []Violation{f.at(sel, "outbound", "%s.%s: only internal/egress opens connections", imported, name)}
		}
	}
	return nil
}
