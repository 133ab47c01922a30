package archtest_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// TestArchitectureNamesEveryPackage: the map is complete. The parts of a package
// that is named may go by their last name.
func TestArchitectureNamesEveryPackage(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/ARCHITECTURE.md")
	for folder := range foldersWithCode(t) {
		if !strings.Contains(page, "`"+folder+"`") && !strings.Contains(page, "`"+path.Base(folder)+"`") && !strings.Contains(page, "\n"+folder+" ") {
			t.Errorf("docs/ARCHITECTURE.md does not name %s", folder)
		}
	}
}

func foldersWithCode(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, top := range []string{"cmd", "examples", "internal", "receiver", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(p string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "testdata":
				return filepath.SkipDir
			case d.IsDir() || filepath.Ext(p) != ".go":
				return nil
			}
			rel, err := filepath.Rel(root, filepath.Dir(p))
			found[filepath.ToSlash(rel)] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// place is a file in backquotes, and the function that may follow it.
var place = regexp.MustCompile("`((?:cmd|examples|internal|receiver|test)/[\\w/]+\\.\\w+)`(?:\\s+`(?:(\\w+)\\.)?(\\w+)`)?")

// TestArchitectureNamesWhatExists: a reader who follows the document finds every
// file and function that it names.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	places := place.FindAllStringSubmatch(read(t, "docs/ARCHITECTURE.md"), -1)
	if len(places) < 50 {
		t.Fatalf("%d places are named; the walks alone name more", len(places))
	}
	for _, p := range places {
		file, receiver, name := p[1], p[2], p[3]
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Errorf("docs/ARCHITECTURE.md names a file that does not exist: %v", err)
			continue
		}
		if name != "" && !funcOf(receiver, name).Match(text) {
			t.Errorf("docs/ARCHITECTURE.md names %s in %s, which has no such function", strings.TrimPrefix(receiver+"."+name, "."), file)
		}
	}
}

func funcOf(receiver, name string) *regexp.Regexp {
	of := ""
	if receiver != "" {
		of = fmt.Sprintf(`\(\w+ \*?%s(?:\[\w+\])?\) `, receiver)
	}
	return regexp.MustCompile(fmt.Sprintf(`(?m)^func %s%s[\[(]`, of, name))
}

var (
	block   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline  = regexp.MustCompile("`[^`]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// TestLinksBetweenDocuments: every link to a file of ours leads to one, and every
// anchor to a heading.
func TestLinksBetweenDocuments(t *testing.T) {
	t.Parallel()
	pages := documents{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(found), err)
		}
		for _, file := range found {
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = newDocument(read(t, name))
		}
	}
	for name, page := range pages {
		for _, to := range page.links {
			if problem := pages.broken(name, to); problem != "" {
				t.Errorf("%s links to %s: %s", name, to, problem)
			}
		}
	}
}

// documents are all pages, by their path.
type documents map[string]document

type document struct {
	links   []string
	anchors map[string]bool
}

func newDocument(text string) document {
	text = block.ReplaceAllString(text, "")
	d := document{anchors: map[string]bool{}}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		d.anchors[strings.ReplaceAll(strings.ToLower(noSlug.ReplaceAllString(h[1], "")), " ", "-")] = true
	}
	for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(text, ""), -1) {
		d.links = append(d.links, m[1])
	}
	return d
}

// broken says what is wrong with a link; nothing when it is fine, or leads away.
func (d documents) broken(page, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return "it does not exist"
	}
	if anchor != "" && filepath.Ext(target) == ".md" && !d[target].anchors[anchor] {
		return "it has no such heading"
	}
	return ""
}
