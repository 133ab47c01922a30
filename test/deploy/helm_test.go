package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

const chart = "deploy/helm/breakwater"

// files is what a template may ask about the files of the chart.
type files struct{ t *testing.T }

// Get returns the content of a file of the chart.
func (f files) Get(name string) string { return read(f.t, path.Join(chart, name)) }

// render renders the chart with those functions of Helm that it uses, and returns
// its objects by kind and name.
func render(t *testing.T, change func(values map[string]any)) (map[string]map[string]any, error) {
	t.Helper()
	values := readYAML(t, read(t, chart+"/values.yaml"))
	if change != nil {
		change(values)
	}
	about := readYAML(t, read(t, chart+"/Chart.yaml"))
	data := map[string]any{
		"Values": values, "Files": files{t},
		"Release": map[string]any{"Name": "try", "Namespace": "hooks", "Service": "Helm"},
		"Chart":   map[string]any{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
	}
	all := template.New("").Option("missingkey=error")
	all.Funcs(functions(all))
	names, err := filepath.Glob(filepath.Join(root, chart, "templates", "*"))
	if err != nil || len(names) < 8 {
		t.Fatalf("%d templates, %v", len(names), err)
	}
	if all, err = all.ParseFiles(names...); err != nil {
		t.Fatal(err)
	}
	objects := map[string]map[string]any{}
	for _, name := range names {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, filepath.Base(name), data); err != nil {
			return nil, err
		}
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for document := range strings.SplitSeq(out.String(), "\n---\n") {
			if object := readYAML(t, document); object != nil {
				objects[fmt.Sprintf("%v %v", object["kind"], at(object, "metadata", "name"))] = object
			}
		}
	}
	return objects, nil
}

func functions(all *template.Template) template.FuncMap {
	indent := func(n int, s string) string {
		pad := strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(s, "\n", "\n"+pad)
	}
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var out strings.Builder
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toYaml": func(v any) (string, error) {
			out, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(out), "\n"), err
		},
		"nindent":    func(n int, s string) string { return "\n" + indent(n, s) },
		"quote":      func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"trunc":      func(n int, s string) string { return s[:min(n, len(s))] },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"sha256sum":  func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
		"fail":       func(s string) (string, error) { return "", errors.New(s) },
		"default": func(otherwise, v any) any {
			if v == nil || v == "" {
				return otherwise
			}
			return v
		},
	}
}

func onPostgres(values map[string]any) {
	values["store"], values["existingSecret"] = "postgres", "keys"
}

func TestChartOnEitherStore(t *testing.T) {
	t.Parallel()
	everything := func(values map[string]any) {
		onPostgres(values)
		for _, part := range []any{values["ingress"], at(values, "metrics", "serviceMonitor"), at(values, "metrics", "rules")} {
			part.(map[string]any)["enabled"] = true
		}
		values["settings"] = map[string]any{"log.level": "debug"}
	}
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   []string
	}{
		"sqlite":     {nil, []string{"ConfigMap try", "Service try", "Service try-metrics", "StatefulSet try"}},
		"postgres":   {onPostgres, []string{"ConfigMap try", "Deployment try", "PodDisruptionBudget try", "Service try", "Service try-metrics"}},
		"everything": {everything, []string{"ConfigMap try", "Deployment try", "Ingress try", "PodDisruptionBudget try", "PrometheusRule try", "Service try", "Service try-metrics", "ServiceMonitor try"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects, err := render(t, c.change)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, c.want) {
				t.Errorf("objects %q, want %q", got, c.want)
			}
			for _, kind := range []string{"Deployment try", "StatefulSet try"} {
				if object := objects[kind]; object != nil {
					checkPod(t, object, objects["ConfigMap try"])
				}
			}
			if rules := objects["PrometheusRule try"]; rules != nil && at(rules, "spec", "groups", 0, "rules", 0, "alert") == nil {
				t.Errorf("no rules in %v", rules)
			}
		})
	}
	if _, err := render(t, func(values map[string]any) { values["store"] = "postgres" }); err == nil || !strings.Contains(err.Error(), "existingSecret is required") {
		t.Errorf("PostgreSQL without its secret: %v", err)
	}
}

func checkPod(t *testing.T, object, settings map[string]any) {
	t.Helper()
	if selector, labels := at(object, "spec", "selector", "matchLabels"), at(object, "spec", "template", "metadata", "labels"); fmt.Sprint(selector) != fmt.Sprint(labels) {
		t.Errorf("selector %v, labels %v", selector, labels)
	}
	pod := at(object, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	for _, c := range []struct {
		from any
		path []any
		want any
	}{
		{pod, []any{"terminationGracePeriodSeconds"}, 60},
		{pod, []any{"securityContext", "runAsUser"}, 65532},
		{container, []any{"securityContext", "readOnlyRootFilesystem"}, true},
		{container, []any{"image"}, "breakwater:dev"},
		{container, []any{"readinessProbe", "httpGet", "path"}, "/readyz"},
		{container, []any{"livenessProbe", "httpGet", "path"}, "/livez"},
		{container, []any{"ports", 0, "containerPort"}, 8080},
	} {
		if got := at(c.from, c.path...); got != c.want {
			t.Errorf("%v is %v, want %v", c.path, got, c.want)
		}
	}
	var environ []string
	variables, _ := at(container, "env").([]any)
	for _, v := range variables {
		value := at(v, "value")
		if value == nil {
			value = "try-0" // the name of the pod
		}
		environ = append(environ, fmt.Sprintf("%v=%v", at(v, "name"), value))
	}
	file := filepath.Join(t.TempDir(), "breakwater.yaml")
	text, _ := at(settings, "data", "breakwater.yaml").(string)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := strings.ReplaceAll(strings.Join(words(at(container, "args")), " "), "/etc/breakwater/breakwater.yaml", file)
	checkSettings(t, environ, strings.Fields(args)[1:]...)
	mounts, _ := at(container, "volumeMounts").([]any)
	claims, _ := at(object, "spec", "volumeClaimTemplates").([]any)
	volumes, _ := at(pod, "volumes").([]any)
	if len(mounts) != len(volumes)+len(claims) {
		t.Errorf("%d mounts of %d volumes and %d claims", len(mounts), len(volumes), len(claims))
	}
}

// TestChartSchemaKnowsEveryValue: a wrong name is refused, a right one is not, and
// every value is used.
func TestChartSchemaKnowsEveryValue(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	values := readYAML(t, read(t, chart+"/values.yaml"))
	var known []string
	var compare func(path string, schema, values map[string]any)
	compare = func(path string, schema, values map[string]any) {
		properties, _ := schema["properties"].(map[string]any)
		if properties == nil {
			return // free
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s takes any name", path)
		}
		for name := range properties {
			if _, ok := values[name]; !ok && name != "global" { // Helm's own
				t.Errorf("%s.%s is in the schema only", path, name)
			}
		}
		for name, value := range values {
			inner, _ := properties[name].(map[string]any)
			if inner == nil {
				t.Errorf("%s.%s is not in the schema", path, name)
			}
			known = append(known, path+"."+name)
			if m, ok := value.(map[string]any); ok {
				compare(path+"."+name, inner, m)
			}
		}
	}
	compare(".Values", schema, values)

	var all strings.Builder
	names, err := filepath.Glob(filepath.Join(root, chart, "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	used := regexp.MustCompile(`\.Values(\.\w+)+`).FindAllString(all.String(), -1)
	for _, name := range used {
		if !slices.Contains(known, name) {
			t.Errorf("templates use %s, which values.yaml does not have", name)
		}
	}
	for _, name := range known {
		if !slices.ContainsFunc(used, func(u string) bool {
			return u == name || strings.HasPrefix(u, name+".") || strings.HasPrefix(name, u+".")
		}) {
			t.Errorf("no template uses %s", name)
		}
	}
}

// TestChartHasTheRulesOfTheProgram: the chart cannot run the program, so it holds
// what it prints.
func TestChartHasTheRulesOfTheProgram(t *testing.T) {
	t.Parallel()
	_, want := breakwater(nil, "rules")
	file := filepath.Join(root, chart, "files", "breakwater.rules.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, chart+"/files/breakwater.rules.yaml"); got != want {
		t.Errorf("%s is out of date; run this test with -update", file)
	}
}
