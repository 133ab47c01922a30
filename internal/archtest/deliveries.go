package archtest

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// The door to the table deliveries: see package visible.
const (
	doorFolder = "internal/store/visible"
	doorPath   = Module + "/" + doorFolder
)

var (
	// leaveGivers make deferred rows visible, and may say so.
	leaveGivers = set("internal/store/postgres/make_visible.go", "internal/store/postgres/floor.go")

	// doorless are folders in which every delivery has a row.
	doorless = set(doorFolder, "internal/store/sqlite", "internal/store/storetest")

	namesDeliveries = regexp.MustCompile(`\bdeliveries\b`)
	looksLikeSQL    = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE|FROM|JOIN|INTO|WHERE)\b`)
)

// checkDeliveries finds statements over the table deliveries that are plain
// strings, and who gives himself the leave to run others.
func checkDeliveries(folder string, files []*file) (out []Violation) {
	if doorless[folder] || strings.HasPrefix(folder, "internal/lab/") || strings.HasPrefix(folder, "test/") {
		return nil
	}
	guarded := map[string]bool{} // statements of the package
	for _, f := range files {
		for _, spec := range f.doorSpecs() {
			for _, name := range spec.Names {
				guarded[name.Name] = true
			}
		}
	}
	for _, f := range files {
		specs := f.doorSpecs()
		inSpec := func(n ast.Node) bool {
			for _, s := range specs {
				if s.Pos() <= n.Pos() && n.End() <= s.End() {
					return true
				}
			}
			return false
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if why := f.passesDoor(n, guarded); why != "" && !inSpec(n) {
				out = append(out, f.at(n, "deliveries", "%s", why))
			}
			return true
		})
	}
	return out
}

// passesDoor returns what is wrong with a node outside the constants of type
// visible.SQL; empty: nothing.
func (f *file) passesDoor(n ast.Node, guarded map[string]bool) string {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind == token.STRING && namesDeliveries.MatchString(n.Value) && looksLikeSQL.MatchString(n.Value) {
			return "a statement over deliveries is a constant of type visible.SQL: rows may be deferred"
		}
	case *ast.SelectorExpr:
		if f.isDoor(n, "Made") && !leaveGivers[f.name] {
			return "only what makes rows visible says that they are"
		}
	case *ast.CompositeLit:
		if f.isDoor(n.Type, "Rows") && !leaveGivers[f.name] {
			return "the leave comes from making rows visible"
		}
	case *ast.CallExpr:
		if of, ok := n.Fun.(*ast.Ident); ok && of.Name == "string" && len(n.Args) == 1 {
			if arg, ok := n.Args[0].(*ast.Ident); ok && guarded[arg.Name] {
				return "the text of a statement over deliveries is given out by visible.Rows or visible.Despite"
			}
		}
	}
	return ""
}

// doorSpecs returns the declarations of type visible.SQL.
func (f *file) doorSpecs() (specs []*ast.ValueSpec) {
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && f.isDoor(s.Type, "SQL") {
			specs = append(specs, s)
		}
		return true
	})
	return specs
}

// isDoor reports whether an expression is a name of package visible.
func (f *file) isDoor(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && f.names[id.Name] == doorPath
}
