package config_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
)

func TestDashboardSettings(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "ui:\n  vendor_name: Acme Hooks\n  frame_ancestors: [https://app.example.com, 'https://*.example.org:8443']\n",
		[]string{"BREAKWATER_UI_VENDOR_COLOR=#1f6FEB", "BREAKWATER_UI_PUBLIC_URL=https://hooks.example.com"},
		[]string{"--ui-vendor-logo=data:image/png;base64,iVBORw=="})
	want := app.UI{
		PublicURL: "https://hooks.example.com", VendorName: "Acme Hooks", VendorLogo: "data:image/png;base64,iVBORw==", VendorColor: "#1f6FEB",
		FrameAncestors: []string{"https://app.example.com", "https://*.example.org:8443"},
	}
	if diff := cmp.Diff(want, c.Options.UI); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustLoad(t, "", nil, []string{"--ui-vendor-logo=https://example.com/logo.svg?size=2"})
}

func TestWrongDashboardSettings(t *testing.T) {
	t.Parallel()
	for variable, values := range map[string][]string{
		"PUBLIC_URL":   {"hooks.example.com", "ftp://a", "https://a?b", "https://u:p@a"},
		"VENDOR_NAME":  {strings.Repeat("ä", 65), "a\x07b"},
		"VENDOR_COLOR": {"red", "#12345", "#12345g", "1234567", "#1234567"},
		"VENDOR_LOGO": {
			"http://example.com/a.png", "/logo.png", "data:text/html;base64,AAAA", "data:image/png;base64,***", "data:image/png,abc", "https://u@example.com/a.png",
			"javascript:alert(1)", "data:image/png;base64," + strings.Repeat("AAAA", 20_000), "https://example.com/a;script-src *", "https:///a.png",
		},
		"FRAME_ANCESTORS": {
			"example.com", "https://example.com/", "https://example.com/a", "*", "'self'", "https://a;script-src", "https://*", "https://u@a",
			strings.TrimSuffix(strings.Repeat("https://a.example,", 21), ","),
		},
	} {
		for _, v := range values {
			_, err := load(t, "", []string{"BREAKWATER_UI_" + variable + "=" + v}, nil)
			all, ok := errors.AsType[*config.Error](err)
			if !ok || len(all.Problems) != 1 || all.Problems[0].Key != "ui."+strings.ToLower(variable) {
				t.Errorf("%s %.60q: %v, want one problem", variable, v, err)
			}
		}
	}
}
