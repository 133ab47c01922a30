// Package grafana writes a Grafana dashboard over the metrics of package metric:
// a chart for every row of its table, and a line of the figures that matter most.
//
// It knows no Grafana: what it writes is a file that people import.
package grafana

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/metric"
)

// Config is what the dashboard depends on.
type Config struct {
	// Datasource is the uid of the Prometheus to ask; empty: whoever looks chooses.
	Datasource string
}

var uid = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,40}$`)

// Dashboard is a dashboard as Grafana reads it.
type Dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Refresh       string     `json:"refresh"`
	Time          span       `json:"time"`
	Editable      bool       `json:"editable"`
	GraphTooltip  int        `json:"graphTooltip"` // 1: all charts show the same moment
	Templating    templating `json:"templating"`
	Panels        []Panel    `json:"panels"`
}

type span struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []Variable `json:"list"`
}

// Variable is something to choose above the charts.
type Variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Query      string         `json:"query"`
	Datasource *source        `json:"datasource,omitempty"`
	Refresh    int            `json:"refresh,omitempty"` // 2: when the time changes
	IncludeAll bool           `json:"includeAll"`
	Multi      bool           `json:"multi"`
	AllValue   string         `json:"allValue,omitempty"`
	Current    map[string]any `json:"current"`
	Hide       int            `json:"hide"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a chart, a figure, or the heading of a row.
type Panel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     Place          `json:"gridPos"`
	Datasource  *source        `json:"datasource,omitempty"`
	Targets     []Target       `json:"targets,omitempty"`
	FieldConfig *fieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"`
	Collapsed   *bool          `json:"collapsed,omitempty"`
	Panels      []Panel        `json:"panels,omitempty"`
}

// Place is where a panel is, on a grid of 24 columns.
type Place struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one query of a panel.
type Target struct {
	RefID        string  `json:"refId"`
	Expr         string  `json:"expr"`
	LegendFormat string  `json:"legendFormat,omitempty"`
	Datasource   *source `json:"datasource"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []any         `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string         `json:"unit"`
	Min        *float64       `json:"min,omitempty"`
	Thresholds *thresholds    `json:"thresholds,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Sizes of panels.
const (
	columns             = 24
	figureW, figureH    = 4, 4
	chartW, chartH      = 8, 7
	schema              = 39
	selector            = `{job=~"$job",instance=~"$instance"}`
	inSelector          = `job=~"$job",instance=~"$instance"`
	rate                = "$__rate_interval"
	chosenSource        = "${datasource}"
	dashboardUID, title = "breakwater", "Breakwater"
)

// Make returns the dashboard.
func Make(cfg Config) (*Dashboard, error) {
	from := &source{"prometheus", chosenSource}
	var choices []Variable
	switch {
	case cfg.Datasource == "":
		choices = append(choices, Variable{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Current: map[string]any{}})
	case uid.MatchString(cfg.Datasource):
		from.UID = cfg.Datasource
	default:
		return nil, fmt.Errorf("datasource %q: must be the uid of a data source: 1 to 40 letters, digits, dashes or underscores", cfg.Datasource)
	}
	for _, v := range []struct{ name, label, query string }{
		{"job", "Job", "label_values(breakwater_build_info, job)"},
		{"instance", "Node", `label_values(breakwater_build_info{job=~"$job"}, instance)`},
	} {
		choices = append(choices, Variable{
			Name: v.name, Label: v.label, Type: "query", Query: v.query, Datasource: from, Refresh: 2, IncludeAll: true, Multi: true, AllValue: ".*",
			Current: map[string]any{"text": "All", "value": "$__all"},
		})
	}
	l := layout{from: from}
	for _, section := range metric.Sections() {
		l.row(section.String())
		if section == metric.Overview {
			for i := range figures {
				l.add(figures[i].panel(), figureW, figureH)
			}
			l.feed()
		}
		for _, d := range metric.Table() {
			if d.Section == section {
				l.add(chart(d), chartW, chartH)
			}
		}
		if section == metric.Process {
			for _, c := range runtimeCharts {
				l.add(c.panel(), chartW, chartH)
			}
		}
	}
	return &Dashboard{
		UID: dashboardUID, Title: title, Tags: []string{"breakwater", "webhooks"}, SchemaVersion: schema, Refresh: "30s", Editable: true,
		Time: span{"now-6h", "now"}, GraphTooltip: 1, Templating: templating{choices}, Panels: l.panels,
	}, nil
}

// Write writes the dashboard as JSON.
func Write(w io.Writer, cfg Config) error {
	d, err := Make(cfg)
	if err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return fmt.Errorf("write dashboard: %w", err)
	}
	return nil
}

// layout puts panels beside and below each other.
type layout struct {
	from   *source
	panels []Panel
	x, y   int
	high   int // of the panels beside each other
}

// feed begins a new line.
func (l *layout) feed() {
	if l.x > 0 {
		l.y, l.x = l.y+l.high, 0
	}
	l.high = 0
}

func (l *layout) row(title string) {
	l.feed()
	collapsed := false
	l.panels = append(l.panels, Panel{ID: len(l.panels) + 1, Type: "row", Title: title, GridPos: Place{1, columns, 0, l.y}, Collapsed: &collapsed})
	l.y++
}

func (l *layout) add(p Panel, w, h int) {
	if l.x+w > columns {
		l.feed()
	}
	p.ID, p.Datasource, p.GridPos = len(l.panels)+1, l.from, Place{h, w, l.x, l.y}
	for i := range p.Targets {
		p.Targets[i].Datasource = l.from
		p.Targets[i].RefID = string(rune('A' + i))
	}
	l.panels = append(l.panels, p)
	l.x += w
	l.high = max(l.high, h)
}

func newChart(title, description, unit string, targets ...Target) Panel {
	zero := 0.0
	return Panel{
		Type: "timeseries", Title: title, Description: description, Targets: targets,
		FieldConfig: &fieldConfig{
			Defaults: fieldDefaults{
				Unit: unit, Min: &zero,
				Custom: map[string]any{"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false},
			},
			Overrides: []any{},
		},
		Options: map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
}

// units are Grafana's names for ours.
var units = map[metric.Unit]string{metric.Plain: "short", metric.Seconds: "s", metric.Bytes: "bytes"}

// chart draws a metric of the table.
func chart(d *metric.Desc) Panel {
	unit, targets := units[d.Unit], []Target{}
	switch d.Type {
	case metric.Histogram:
		for _, q := range []struct{ quantile, name string }{{"0.5", "half"}, {"0.99", "99 %"}} {
			targets = append(targets, Target{
				Expr:         fmt.Sprintf("histogram_quantile(%s, sum by (%s) (rate(%s_bucket%s[%s])))", q.quantile, strings.Join(append(told(d), "le"), ", "), d.Name, selector, rate),
				LegendFormat: strings.TrimSpace(q.name + " " + legend(d)),
			})
		}
	case metric.Counter:
		if unit == "short" {
			unit = "cps"
		} else {
			unit = "Bps"
		}
		targets = append(targets, Target{Expr: gathered(d, fmt.Sprintf("rate(%s%s[%s])", d.Name, selector, rate)), LegendFormat: legend(d)})
	default:
		targets = append(targets, Target{Expr: gathered(d, d.Name+selector), LegendFormat: legend(d)})
	}
	return newChart(caption(d), d.Help, unit, targets...)
}

// told are the labels that a chart tells apart.
func told(d *metric.Desc) []string {
	by := d.By
	if by == nil {
		by = d.LabelNames()
	}
	if d.Over == metric.Each || d.Over == metric.Max && d.Type == metric.Histogram {
		by = append([]string{"instance"}, by...)
	}
	return append([]string(nil), by...)
}

// gathered puts the nodes together.
func gathered(d *metric.Desc, inner string) string {
	over := "sum"
	if d.Over == metric.Max {
		over = "max"
	}
	if by := told(d); len(by) > 0 {
		over += " by (" + strings.Join(by, ", ") + ")"
		inner = " (" + inner + ")"
	} else {
		inner = "(" + inner + ")"
	}
	if d.Name == "breakwater_alerts_open" {
		return over + inner + " > 0" // of the many rules only those
	}
	return over + inner
}

func legend(d *metric.Desc) string {
	var parts []string
	for _, l := range told(d) {
		parts = append(parts, "{{"+l+"}}")
	}
	return strings.Join(parts, " ")
}

// caption makes words of a name.
func caption(d *metric.Desc) string {
	words := strings.TrimPrefix(d.Name, "breakwater_")
	for _, suffix := range []string{"_total", "_seconds", "_bytes"} {
		if rest := strings.TrimSuffix(words, suffix); strings.Contains(rest, "_") {
			words = rest
		}
	}
	words = strings.ReplaceAll(words, "_", " ")
	if d.Type == metric.Counter {
		words += " per second"
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
