package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instruction is one of a Dockerfile, with its continued lines.
type instruction struct{ name, rest string }

// stages reads a Dockerfile: the instructions from each FROM on.
func stages(text string) [][]instruction {
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "\\\n", " ")
	var all [][]instruction
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		if name == "FROM" {
			all = append(all, nil)
		}
		last := len(all) - 1
		all[last] = append(all[last], instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

func find(stage []instruction, name string) []string {
	var found []string
	for _, i := range stage {
		if i.name == name {
			found = append(found, i.rest)
		}
	}
	return found
}

func one(t *testing.T, stage []instruction, name string) string {
	t.Helper()
	found := find(stage, name)
	if len(found) != 1 {
		t.Fatalf("%d times %s, want it once: %q", len(found), name, found)
	}
	return found[0]
}

func jsonWords(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s is not in exec form: %v", text, err)
	}
	return out
}

func TestImageHoldsABinaryForAnUnprivilegedUser(t *testing.T) {
	t.Parallel()
	all := stages(read(t, "Dockerfile"))
	if len(all) != 2 {
		t.Fatalf("%d stages, want 2", len(all))
	}
	image := all[1]
	for name, want := range map[string]string{
		"FROM": "scratch", "USER": "65532:65532", "VOLUME": "/data", "WORKDIR": "/data", "EXPOSE": "8080", "STOPSIGNAL": "SIGTERM",
		"ENTRYPOINT": `["/breakwater"]`, "CMD": `["serve"]`,
	} {
		if got := one(t, image, name); got != want {
			t.Errorf("%s %s, want %s", name, got, want)
		}
	}
	if run := find(image, "RUN"); run != nil {
		t.Errorf("an image without a shell runs %q", run)
	}
	if copies := strings.Join(find(image, "COPY"), "\n"); !strings.Contains(copies, "--chown=65532:65532") || !strings.Contains(copies, "/image/etc /etc") {
		t.Errorf("no folder for data, or no certificate authorities: %s", copies)
	}
	checkSettings(t, strings.Fields(one(t, image, "ENV")))

	_, command, found := strings.Cut(one(t, image, "HEALTHCHECK"), "CMD ")
	health := jsonWords(t, command)
	if !found || health[0] != "/breakwater" {
		t.Fatalf("the health check runs %q", health)
	}
	// Nobody answers at this address: the command exists and says so.
	if code, out := breakwater([]string{"BREAKWATER_URL=http://127.0.0.1:1"}, health[1:]...); code != 6 {
		t.Errorf("%q: exit code %d, want 6\n%s", health, code, out)
	}
}

// TestImageIsBuiltFromWhatIsThere: every source exists, is not left out of the
// context, and nothing that the binary is made of is missing.
func TestImageIsBuiltFromWhatIsThere(t *testing.T) {
	t.Parallel()
	build := stages(read(t, "Dockerfile"))[0]
	if from := one(t, build, "FROM"); strings.Contains(from, "/") {
		t.Errorf("the image names a registry: %s", from)
	}
	context := strings.Split(read(t, ".dockerignore"), "\n")
	var copied []string
	for _, rest := range find(build, "COPY") {
		sources := strings.Fields(rest)
		for _, source := range sources[:len(sources)-1] {
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Error(err)
			}
			if !slices.Contains(context, "!"+source) {
				t.Errorf(".dockerignore leaves %s out", source)
			}
			copied = append(copied, source)
		}
	}
	for _, folder := range []string{"cmd", "internal", "receiver", "go.mod", "go.sum", "LICENSE", "NOTICE"} {
		if !slices.Contains(copied, folder) {
			t.Errorf("%s is not copied", folder)
		}
	}
	command := strings.Join(find(build, "RUN"), "\n")
	for _, flag := range []string{"CGO_ENABLED=0", "-trimpath", "-buildvcs=false", "internal/cli.version=$VERSION"} {
		if !strings.Contains(command, flag) {
			t.Errorf("the image is not built with %s, as releases are", flag)
		}
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
	if from := one(t, build, "FROM"); !strings.Contains(from, "golang:"+version+" ") {
		t.Errorf("%s is not the Go of go.mod, %s", from, version)
	}
}
