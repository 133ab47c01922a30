package release

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"strings"
	"text/template"
)

const home = "https://github.com/breakwaterhq/breakwater"

//go:embed formula.rb.tmpl
var formulaText string

var formulaTemplate = template.Must(template.New("formula").Parse(formulaText))

// download is an archive as the formula names it.
type download struct{ CPU, URL, Sum string }

// formula writes what Homebrew installs the archives by. It names those that were
// made, for the systems that Homebrew runs on.
func (m *maker) formula() error {
	from := strings.TrimSuffix(cmp.Or(m.Downloads, home+"/releases/download/"+m.Version), "/")
	data := struct {
		Home, Version string
		Mac, Linux    []download
	}{Home: home, Version: strings.TrimPrefix(m.Version, "v")}
	for _, t := range m.Targets {
		archive := m.name(t) + ".tar.gz"
		d := download{CPU: map[string]string{"amd64": "intel", "arm64": "arm"}[t.Arch], URL: from + "/" + archive, Sum: m.made[archive]}
		switch t.OS {
		case "darwin":
			data.Mac = append(data.Mac, d)
		case "linux":
			data.Linux = append(data.Linux, d)
		}
	}
	if data.Mac == nil && data.Linux == nil {
		return nil
	}
	var b bytes.Buffer
	if err := formulaTemplate.Execute(&b, data); err != nil {
		return fmt.Errorf("write the formula: %w", err)
	}
	return m.write("breakwater.rb", b.Bytes())
}
