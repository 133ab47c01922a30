package hook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestMatchOperational(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string][]hook.OperationalType{
		"storm.started":   {hook.StormStarted},
		"storm.*":         {hook.StormStarted, hook.StormEnded},
		"system.*":        {hook.SystemQueueGrowing, hook.SystemQueueSettled, hook.BreakersMany, hook.BreakersSettled},
		"*":               hook.OperationalTypes(),
		"storm":           nil,
		"storm.started.*": nil,
		"":                nil,
	} {
		got, err := hook.MatchOperational(pattern)
		if !cmp.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("MatchOperational(%q) = %v, %v, want %v", pattern, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "storm.started") {
			t.Errorf("MatchOperational(%q): %v does not say what is known", pattern, err)
		}
	}
}

func TestStormRatio(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, retries int64
		want           float64
	}{{0, 0, 0}, {0, 101, 101}, {20, 101, 5.05}, {3, 100, 33.33}, {1000, 1, 0}} {
		if got := (hook.Storm{First: tc.first, Retries: tc.retries}).Ratio(); got != tc.want {
			t.Errorf("ratio of %d to %d = %v, want %v", tc.retries, tc.first, got, tc.want)
		}
	}
}

func TestEmptyIn(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		queue hook.RetryQueue
		want  time.Duration
		ok    bool
	}{
		"drains":            {hook.RetryQueue{Depth: 300, DrainPerMinute: 120}, 150 * time.Second, true},
		"empty":             {hook.RetryQueue{DrainPerMinute: 120}, 0, true},
		"flat":              {hook.RetryQueue{Depth: 300}, 0, false},
		"grows":             {hook.RetryQueue{Depth: 300, DrainPerMinute: -1}, 0, false},
		"not counted":       {hook.RetryQueue{Depth: 10_000, AtLeast: true, DrainPerMinute: 5}, 0, false},
		"longer than years": {hook.RetryQueue{Depth: 1 << 60, DrainPerMinute: 1e-6}, 0, false},
	} {
		if got, ok := tc.queue.EmptyIn(); got != tc.want || ok != tc.ok {
			t.Errorf("%s: EmptyIn = %v, %v, want %v, %v", name, got, ok, tc.want, tc.ok)
		}
	}
}

// operationalNames reads the names of the constants of all types from the source.
func operationalNames(t *testing.T) map[hook.OperationalType]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "operational.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[hook.OperationalType]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "OperationalType" {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[hook.OperationalType(text)] = v.Names[0].Name
		}
		return true
	})
	return names
}

// TestOperationalTypesHaveCauses: every type is listed, something records it, and a
// test beside that names it.
func TestOperationalTypesHaveCauses(t *testing.T) {
	t.Parallel()
	names := operationalNames(t)
	if len(names) != len(hook.OperationalTypes()) {
		t.Errorf("%d types are declared, %d are listed", len(names), len(hook.OperationalTypes()))
	}
	var causes, tests strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		skip := strings.HasSuffix(path, filepath.Join("watch", "record.go")) || filepath.Base(filepath.Dir(path)) == "hook"
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || skip {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, "_test.go") {
			tests.Write(text)
		} else {
			causes.Write(text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range hook.OperationalTypes() {
		used := regexp.MustCompile(`hook\.` + names[kind] + `\b`)
		if !used.MatchString(causes.String()) {
			t.Errorf("nothing records %s", kind)
		}
		if !used.MatchString(tests.String()) && !strings.Contains(tests.String(), string(kind)) {
			t.Errorf("no test lets %s happen", kind)
		}
	}
}

// TestOperationalTypesAreDocumented: the table in docs/api.md names each type, and no
// other.
func TestOperationalTypesAreDocumented(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Operational events\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []hook.OperationalType
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || !strings.Contains(cells[1], ".") {
			continue
		}
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			got = append(got, hook.OperationalType(name[1]))
		}
	}
	want := hook.OperationalTypes()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("documented\n%v\nwant\n%v", got, want)
	}
}
