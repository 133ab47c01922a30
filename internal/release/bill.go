package release

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of a bill of materials in CycloneDX that we have something to say
// about: https://cyclonedx.org/docs/1.6/json.
type (
	bill struct {
		Format       string       `json:"bomFormat"`
		Spec         string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []license  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	license struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref string   `json:"ref"`
		On  []string `json:"dependsOn"`
	}
)

// billOf tells what a binary was linked from, as the linker has noted it in the
// binary itself: what is not in it is not in the bill.
func billOf(binary, version string, t Target, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read what the binary holds: %w", err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	sum := sha256.Sum256(content)
	product := component{
		Type: "application", Ref: purl(info.Main.Path, version), Name: "breakwater", Version: version, PURL: purl(info.Main.Path, version),
		Hashes:     []hash{{"SHA-256", hex.EncodeToString(sum[:])}},
		Licenses:   make([]license, 1),
		Properties: []property{{"go:platform", t.String()}},
	}
	product.Licenses[0].License.ID = "Apache-2.0"
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" || s.Key == "-trimpath" || s.Key == "-buildmode" {
			product.Properties = append(product.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	b := bill{
		Format: "CycloneDX", Spec: "1.6", Serial: serial(sum), Version: 1,
		Metadata: metadata{at.UTC().Format(time.RFC3339), product},
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	b.add(component{Type: "library", Name: "std", Version: goVersion, PURL: purl("std", goVersion)})
	for _, module := range info.Deps {
		b.add(ofModule(module))
	}
	root := dependency{Ref: product.Ref}
	for _, c := range b.Components {
		root.On = append(root.On, c.Ref)
	}
	b.Dependencies = []dependency{root}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return append(text, '\n'), nil
}

func (b *bill) add(c component) {
	c.Ref = c.PURL
	b.Components = append(b.Components, c)
}

func ofModule(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
	if m.Sum != "" { // Go's own checksum over the files of the module, not over one file
		c.Properties = []property{{"go:sum", m.Sum}}
	}
	return c
}

// purl is the address of a module in the words of package URLs.
func purl(path, version string) string {
	escape := strings.NewReplacer("+", "%2B", "~", "~", "@", "%40")
	return "pkg:golang/" + escape.Replace(path) + "@" + escape.Replace(version)
}

// serial is a UUID that follows from the binary: the same one has the same bill.
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80 // version 8: made up by whoever uses it
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
