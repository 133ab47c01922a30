package deploy_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func checkSums(t *testing.T, made map[string][]byte) {
	t.Helper()
	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if !strings.HasPrefix(name, "SHA256SUMS") {
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(made[name]), name)
		}
	}
	if got := string(made["SHA256SUMS"]); got != want.String() {
		t.Errorf("checksums\n%s\nwant\n%s", got, &want)
	}
}

// signKey makes a key to sign a release with, or none where nothing can sign.
func signKey(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("ssh-keygen")
	if err != nil {
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci { // where nobody reads it, that is a failure
			t.Fatalf("SIGNATURES ARE NOT TESTED: %v", err)
		}
		t.Logf("SIGNATURES ARE NOT TESTED: %v", err)
		return ""
	}
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command(program, "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return key
}

// checkSignature verifies as docs/installing.md says, and that it says no when a
// checksum is another.
func checkSignature(t *testing.T, dist, key string) {
	t.Helper()
	if key == "" {
		t.Skip("nothing was signed on this machine")
	}
	const command = "ssh-keygen -Y verify -f allowed_signers -I maintainers@breakwater.example -n file -s SHA256SUMS.sig < SHA256SUMS"
	if !strings.Contains(read(t, "docs/installing.md"), "\n"+command+"\n") {
		t.Errorf("docs/installing.md does not say: %s", command)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		after string // what is behind the checksums
		valid bool
	}{{"as it was made", "", true}, {"with a line more", "0  breakwater\n", false}} {
		dir := t.TempDir()
		for name, more := range map[string]string{"SHA256SUMS": c.after, "SHA256SUMS.sig": ""} {
			content, err := os.ReadFile(filepath.Join(dist, name))
			if err := errors.Join(err, os.WriteFile(filepath.Join(dir, name), append(content, more...), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "allowed_signers"), append([]byte("maintainers@breakwater.example "), public...), 0o644); err != nil {
			t.Fatal(err)
		}
		verify := exec.Command("sh", "-c", command)
		verify.Dir = dir
		if out, err := verify.CombinedOutput(); (err == nil) != c.valid {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}

// checkBill compares the bill with NOTICE, which has the licences of the same
// modules.
func checkBill(t *testing.T, text []byte) {
	t.Helper()
	var bill struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(text, &bill); err != nil || bill.Format != "CycloneDX" {
		t.Fatalf("format %q, %v", bill.Format, err)
	}
	var got []string
	for _, c := range bill.Components {
		if want := "pkg:golang/" + c.Name + "@" + strings.ReplaceAll(c.Version, "+", "%2B"); c.PURL != want {
			t.Errorf("purl %q, want %q", c.PURL, want)
		}
		got = append(got, c.Name+" "+c.Version)
	}
	for _, m := range regexp.MustCompile(`(?m)^===== module (.*)$`).FindAllStringSubmatch(read(t, "NOTICE"), -1) {
		if !slices.Contains(got, m[1]) {
			t.Errorf("%s is in NOTICE and not in the bill", m[1])
		}
	}
}
