package browser_test

import (
	"os"
	"path/filepath"
	"testing"
)

// envPictures names the folder that pictures go to: make screenshots.
const envPictures = "UI_SCREENSHOTS"

// TestScreenshots takes a picture of every page on every screen.
func TestScreenshots(t *testing.T) {
	dir := os.Getenv(envPictures)
	if dir == "" {
		return // make screenshots asks for them; nothing is tested here
	}
	s := story(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, on := range screens {
		both := openBoth(t, s, on)
		for _, v := range views {
			b := both.of(&v).in(t)
			b.visitAs(v.at(s.Places), v.want())
			b.shoot(filepath.Join(dir, v.name+"-"+on.name+".png"))
		}
	}
}
