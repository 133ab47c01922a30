package grafana_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/metric/grafana"
)

func dashboard(t *testing.T) *grafana.Dashboard {
	t.Helper()
	d, err := grafana.Make(grafana.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRowsAndFigures(t *testing.T) {
	t.Parallel()
	var rows []string
	stats := 0
	for _, p := range dashboard(t).Panels {
		switch p.Type {
		case "row":
			rows = append(rows, p.Title)
		case "stat":
			stats++
		}
	}
	if got := strings.Join(rows, " "); got != "Overview Destinations Queue Store Process" {
		t.Errorf("rows %s", got)
	}
	if stats < 8 {
		t.Errorf("%d figures", stats)
	}
}

// TestEveryMetricIsDrawn: with what the table says, and nothing else is.
func TestEveryMetricIsDrawn(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{}
	for _, p := range dashboard(t).Panels {
		for _, target := range p.Targets {
			for _, name := range regexp.MustCompile(`breakwater_[a-z_]+`).FindAllString(target.Expr, -1) {
				d := metric.Lookup(name)
				if d == nil {
					d = metric.Lookup(strings.TrimSuffix(name, "_bucket"))
				}
				if d == nil {
					t.Errorf("%s asks for %s", p.Title, name)
					continue
				}
				drawn[d.Name] = true
			}
		}
	}
	for _, d := range metric.Table() {
		if !drawn[d.Name] {
			t.Errorf("%s is not drawn", d.Name)
		}
	}
}

// TestPanelsDoNotOverlap: ids are unique, and each place on the grid has one panel.
func TestPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	ids, titles, taken := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range dashboard(t).Panels {
		if titles[p.Title] {
			t.Errorf("two panels are called %s", p.Title)
		}
		titles[p.Title] = true
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X+g.W > 24 || g.W == 0 || g.H == 0 {
			t.Errorf("%s is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies on %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

// TestPrometheusTakesTheQueries lets promtool read every query, as the expression
// of a rule.
func TestPrometheusTakesTheQueries(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	choose := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*")
	var b bytes.Buffer
	b.WriteString("groups:\n- name: queries\n  rules:\n")
	n := 0
	for _, p := range dashboard(t).Panels {
		for _, target := range p.Targets {
			n++
			fmt.Fprintf(&b, "  - record: query_%d\n    expr: %q\n", n, choose.Replace(target.Expr))
		}
	}
	if n < len(metric.Table()) {
		t.Errorf("%d queries", n)
	}
	if err := tool.CheckRules(b.Bytes()); err != nil {
		t.Error(err)
	}
}

func TestDatasource(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{"": "${datasource}", "my-prometheus_1": "my-prometheus_1"} {
		var b bytes.Buffer
		if err := grafana.Write(&b, grafana.Config{Datasource: given}); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Templating struct{ List []struct{ Name, Type string } }
			Panels     []struct {
				Type       string
				Datasource struct{ Type, UID string }
			}
		}
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if asks := got.Templating.List[0].Type == "datasource"; asks != (given == "") {
			t.Errorf("%q: variables %+v", given, got.Templating.List)
		}
		for _, p := range got.Panels {
			if p.Type != "row" && (p.Datasource.UID != want || p.Datasource.Type != "prometheus") {
				t.Errorf("%q: a panel asks %+v", given, p.Datasource)
			}
		}
	}
	for _, bad := range []string{"a b", `"`, strings.Repeat("x", 41)} {
		if _, err := grafana.Make(grafana.Config{Datasource: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
