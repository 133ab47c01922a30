package torture_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// clonesPerRun is how many clones are taken of one disk.
const clonesPerRun = 10

// clonedCuts returns how many of the cuts are made by cloning the disk: a fifth,
// where that is possible, and none in the share of `go test`, which leaves the
// machine's mounts alone.
func clonedCuts() int {
	if !todo.long || cloningImpossible() != "" {
		return 0
	}
	return todo.cuts / 5
}

// cloningImpossible says why disks cannot be cloned here; empty: they can.
var cloningImpossible = sync.OnceValue(func() string {
	if os.Geteuid() != 0 {
		return "needs root for loop devices: sudo make torture"
	}
	for _, program := range []string{"mount", "umount", "cp", "mkfs.ext4"} {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
	}
	if _, _, err := reflinkSystem(); err != nil {
		return err.Error()
	}
	return ""
})

// reflinkSystem finds a file system that clones files in one step.
func reflinkSystem() (program string, args []string, err error) {
	if path, err := exec.LookPath("mkfs.xfs"); err == nil {
		return path, []string{"-q", "-m", "reflink=1"}, nil
	}
	if path, err := exec.LookPath("mkfs.btrfs"); err == nil {
		return path, []string{"-q"}, nil
	}
	return "", nil, errors.New("neither mkfs.xfs nor mkfs.btrfs is installed (Debian: xfsprogs, btrfs-progs)")
}

// TestPowerCutsCloned runs the server on an ext4 in a file and clones that file
// in one step: the clone is the disk of that instant, without what was only in
// memory. ext4 then recovers as after a power cut, and so does the server.
func TestPowerCutsCloned(t *testing.T) {
	const part = "power cut, disk cloned"
	if !todo.long {
		t.Skip("part of `make torture`: it mounts file systems")
	}
	if why := cloningImpossible(); why != "" {
		skip(t, part, "SQLite", why)
	}
	c := &cutter{t: t, rng: chance(t), binary: binaryOf(t, product)}
	cuts := clonedCuts()
	c.line = result{part: part, store: "SQLite on ext4", faults: fmt.Sprintf("%d cuts", cuts)}
	c.clone(cuts)
	c.finish()
	limitRepeats(t, c.line.again, cuts, 1)
	if c.line.hit > 0 {
		t.Errorf("%d of %d cuts broke a promise", c.line.hit, cuts)
	}
}

// TestPowerCutsClonedFindLosses is the proof that these can find something.
func TestPowerCutsClonedFindLosses(t *testing.T) {
	const part = "control: disk cloned, synchronous NORMAL"
	if !todo.long {
		t.Skip("part of `make torture`: it mounts file systems")
	}
	if why := cloningImpossible(); why != "" {
		skip(t, part, "SQLite on ext4", why)
	}
	c := &cutter{t: t, rng: chance(t), binary: binaryOf(t, unsafeProduct), env: []string{"TORTURE_SYNCHRONOUS=NORMAL"}}
	c.line = result{part: part, store: "SQLite on ext4", faults: fmt.Sprintf("%d cuts", clonesPerRun), control: true}
	c.clone(clonesPerRun)
	c.finish()
	if c.line.lost+c.line.unreadable == 0 {
		t.Errorf("no loss found in %d cuts: they prove nothing", clonesPerRun)
	}
}

func (c *cutter) clone(cuts int) {
	c.t.Helper()
	defer func(began time.Time) { c.line.took += time.Since(began) }(time.Now())
	for done := 0; done < cuts; {
		n := min(clonesPerRun, cuts-done)
		done += n
		c.cloneRun(n)
	}
}

// cloneRun takes some clones of one disk under load, then examines them.
func (c *cutter) cloneRun(cuts int) {
	c.t.Helper()
	d := newCloneable(c.t)
	defer d.remove()
	// Odd while a clone is made. An answer that came at an even count before it
	// is in the clone; an arrival up to the odd count may be.
	var count atomic.Int64
	w := newWorld(c.t, c.rng, count.Load, usual())
	s := newServer(c.t, "cloned", c.binary, filepath.Join(d.inner, "data"))
	s.env = c.env
	restart(c.t, s)
	w.create(s.url)
	p := publish(c.t, w.dir, load{clients: 6, pause: 20 * time.Millisecond}, c.rng, count.Load, w.names, func(int, int) string { return s.url })
	for i := range cuts {
		time.Sleep(between(c.rng, 50*time.Millisecond, 1500*time.Millisecond))
		count.Add(1)
		d.clone(i)
		count.Add(1)
	}
	s.kill()
	p.stop()
	for i := range cuts {
		during := int64(2*i + 1)
		dir := filepath.Join(c.t.TempDir(), "data")
		began := time.Now()
		d.recover(i, dir)
		findings := c.examine(w, dir, func(h *check.History, source string) {
			h.Accepted = slices.DeleteFunc(h.Accepted, func(a check.Accepted) bool { return a.Stamp >= during })
			h.Seen = slices.DeleteFunc(h.Seen, func(one check.Seen) bool {
				return one.Source != source && (one.Source != s.source() || one.Stamp > during)
			})
		})
		_ = os.RemoveAll(filepath.Dir(dir))
		c.t.Logf("clone %d: %v in %v", i, orNothing(findings), time.Since(began).Round(time.Millisecond))
		if len(findings) == 0 {
			continue
		}
		c.line.hit++
		if !c.line.control {
			c.t.Errorf("clone %d: %v", i, findings)
			w.keep()
		}
	}
}

// cloneable is an ext4 on a file that can be cloned.
type cloneable struct {
	t            *testing.T
	root         string
	outer, inner string // mount points
}

func newCloneable(t *testing.T) *cloneable {
	t.Helper()
	root := t.TempDir()
	d := &cloneable{t: t, root: root, outer: filepath.Join(root, "outer"), inner: filepath.Join(root, "inner")}
	t.Cleanup(d.remove)
	program, args, err := reflinkSystem()
	if err != nil {
		t.Fatal(err)
	}
	d.mount(filepath.Join(root, "outer.img"), 16<<30, d.outer, program, args...)
	d.mount(filepath.Join(d.outer, "inner.img"), 6<<30, d.inner, "mkfs.ext4", "-q", "-F") // room for the server's reserve; the files are sparse
	return d
}

// mount makes a file system in a file.
func (d *cloneable) mount(image string, size int64, at, program string, args ...string) {
	d.t.Helper()
	file, err := os.Create(image)
	if err == nil {
		err = errors.Join(file.Truncate(size), file.Close(), os.MkdirAll(at, 0o755))
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.run(program, append(args, image)...)
	d.run("mount", "-o", "loop", image, at)
}

func (d *cloneable) run(program string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

func (d *cloneable) image(i int) string { return filepath.Join(d.outer, fmt.Sprintf("clone%d.img", i)) }

// clone keeps the disk as it is at this instant.
func (d *cloneable) clone(i int) {
	d.t.Helper()
	d.run("cp", "--reflink=always", filepath.Join(d.outer, "inner.img"), d.image(i))
}

// recover mounts a clone and copies the data folder out of it.
func (d *cloneable) recover(i int, to string) {
	d.t.Helper()
	at := filepath.Join(d.root, "clone")
	if err := os.MkdirAll(at, 0o755); err != nil {
		d.t.Fatal(err)
	}
	d.run("mount", "-o", "loop", d.image(i), at)
	d.run("cp", "-a", filepath.Join(at, "data"), to)
	d.run("umount", at)
	if err := os.Remove(d.image(i)); err != nil {
		d.t.Fatal(err)
	}
}

// remove gives the mounts back. A second call does nothing.
func (d *cloneable) remove() {
	for _, at := range []string{filepath.Join(d.root, "clone"), d.inner, d.outer} {
		_ = exec.Command("umount", at).Run() // not mounted: nothing to do
	}
}
