package release_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/release"
)

// TestSameFilesMakeTheSameBytes: whoever makes an archive or a package, when and
// where does not show in it.
func TestSameFilesMakeTheSameBytes(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	for _, target := range []release.Target{{OS: "linux", Arch: "arm64"}, {OS: "windows", Arch: "amd64"}} {
		t.Run(target.OS, func(t *testing.T) {
			t.Parallel()
			cfg := release.Config{Root: filepath.Join("..", ".."), Version: "v1.2.3-test", Time: at}
			names := append(release.Names(), "breakwater", "man/breakwater.1", "man/breakwater-serve.1")
			slices.Sort(names)
			if target.OS == "linux" {
				cfg.NFPM = packager(t)
			}
			var made [2]map[string][]byte
			for i := range made {
				cfg.Out = t.TempDir()
				if err := release.Pack(t.Context(), cfg, target, t.TempDir(), names); err != nil {
					t.Fatal(err)
				}
				made[i] = contents(t, cfg.Out)
			}
			for name, content := range made[0] {
				if !bytes.Equal(content, made[1][name]) {
					t.Errorf("%s is another when it is made again", name)
				}
			}
			base := "breakwater_v1.2.3-test_" + target.OS + "_" + target.Arch
			if target.OS == "windows" {
				checkZip(t, made[0][base+".zip"], base, names, at)
				return
			}
			checkTarball(t, made[0][base+".tar.gz"], base, names, at)
			if cfg.NFPM != "" {
				checkDeb(t, made[0][base+".deb"])
				checkRPM(t, made[0][base+".rpm"])
			}
		})
	}
}

// packager is the program that makes packages, or nothing if it cannot be built;
// where nobody reads that, it is a failure.
func packager(t *testing.T) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "tool", "-modfile=tools/packages/go.mod", "-n", "nfpm") // builds it and says where it is
	cmd.Dir, cmd.Stderr = filepath.Join("..", ".."), &stderr
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci {
		t.Fatalf("DEB AND RPM ARE NOT TESTED: nfpm could not be built: %v\n%s", err, &stderr)
	}
	t.Logf("DEB AND RPM ARE NOT TESTED: nfpm could not be built: %v\n%s", err, &stderr)
	return ""
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if found[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func checkZip(t *testing.T, archive []byte, base string, names []string, at time.Time) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.File {
		name, _ := strings.CutPrefix(f.Name, base+"/")
		got = append(got, name)
		if !f.Modified.Equal(at) || f.Mode() != 0o644 {
			t.Errorf("%s has time %s, mode %s", f.Name, f.Modified, f.Mode())
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("zip has %q, want %q", got, names)
	}
}

func checkTarball(t *testing.T, archive []byte, base string, names []string, at time.Time) {
	t.Helper()
	var got []string
	for _, f := range tarFiles(t, archive) {
		name, _ := strings.CutPrefix(f.Name, base+"/")
		got = append(got, name)
		if f.content != name+"\n" || !f.ModTime.Equal(at) || f.Uid != 0 || f.Gid != 0 || f.Uname != "" || f.Gname != "" || f.Mode != 0o644 {
			t.Errorf("%s has content %q, time %s, owner %d %q, mode %o", f.Name, f.content, f.ModTime, f.Uid, f.Uname, f.Mode)
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("tarball has %q, want %q", got, names)
	}
}

type packed struct {
	*tar.Header
	content string
}

// inPackages are files that a person looks for after an installation.
var inPackages = []string{
	"usr/bin/breakwater", "usr/lib/systemd/system/breakwater.service", "etc/breakwater/breakwater.yaml", "usr/share/man/man1/breakwater.1.gz",
	"usr/share/bash-completion/completions/breakwater", "usr/share/breakwater/breakwater.rules.yaml", "usr/share/doc/breakwater/NOTICE",
}

// checkDeb reads the package as dpkg does: an ar with two tarballs.
func checkDeb(t *testing.T, deb []byte) {
	t.Helper()
	const head = 60
	rest, ok := bytes.CutPrefix(deb, []byte("!<arch>\n"))
	parts := map[string]map[string]string{}
	for ok && len(rest) > head {
		name := strings.TrimRight(string(rest[:16]), " /")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || head+size > len(rest) {
			t.Fatalf("%s: %v, %d bytes of %d", name, err, size, len(rest))
		}
		if strings.HasSuffix(name, ".tar.gz") {
			parts[name] = map[string]string{}
			for _, f := range tarFiles(t, rest[head:head+size]) {
				parts[name][strings.TrimPrefix(f.Name, "./")] = f.content
			}
		}
		rest = rest[min(len(rest), head+size+size%2):]
	}
	control, data := parts["control.tar.gz"], parts["data.tar.gz"]
	for _, line := range []string{"Package: breakwater", "Version: 1.2.3~test-1", "Maintainer: Breakwater <maintainers@breakwater.example>"} {
		if !strings.Contains(control["control"], line+"\n") {
			t.Errorf("deb: no %s in\n%s", line, control["control"])
		}
	}
	if control["conffiles"] != "/etc/breakwater/breakwater.yaml\n" || control["postinst"] == "" || control["prerm"] == "" || control["postrm"] == "" {
		t.Errorf("deb: conffiles %q, or a script is missing", control["conffiles"])
	}
	for _, name := range inPackages {
		if data[name] == "" {
			t.Errorf("deb: no %s", name)
		}
	}
}

func tarFiles(t *testing.T, archive []byte) []packed {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	var files []packed
	for r := tar.NewReader(plain); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, packed{head, string(content)})
	}
}

// checkRPM looks for the files behind the two headers: names stand in the payload
// as they are.
func checkRPM(t *testing.T, rpm []byte) {
	t.Helper()
	const lead, intro, entry = 96, 16, 16
	offset := lead
	for part := range 2 { // the signatures, which are padded, and the facts
		if len(rpm) < offset+intro || !bytes.HasPrefix(rpm[offset:], []byte{0x8e, 0xad, 0xe8, 1}) {
			t.Fatalf("rpm: no header at %d of %d", offset, len(rpm))
		}
		entries, size := binary.BigEndian.Uint32(rpm[offset+8:]), binary.BigEndian.Uint32(rpm[offset+12:])
		offset += intro + entry*int(entries) + int(size)
		if part == 0 {
			offset = (offset + 7) / 8 * 8
		}
	}
	plain, err := gzip.NewReader(bytes.NewReader(rpm[min(offset, len(rpm)):]))
	if err != nil {
		t.Fatalf("rpm: %v", err)
	}
	payload, err := io.ReadAll(plain)
	if err != nil {
		t.Fatalf("rpm: %v", err)
	}
	for _, name := range inPackages {
		if !bytes.Contains(payload, []byte(name+"\x00")) {
			t.Errorf("rpm: no %s", name)
		}
	}
}
