package torture_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// TestPlantedDefectsAreFound lets the real binary do what must never happen,
// and expects the comparison to say so.
func TestPlantedDefectsAreFound(t *testing.T) {
	rng := chance(t)
	w := newWorld(t, rng, nil, []*endpoint{
		{name: "honest", high: time.Millisecond, concurrency: 10},
		{name: "swallowed", high: time.Millisecond, concurrency: 10},
	})
	s := newServer(t, "planted", binaryOf(t, product), filepath.Join(t.TempDir(), "data"))
	restart(t, s)
	w.create(s.url)
	some := func(n int64) {
		p := publish(t, w.dir, load{clients: 2, pause: time.Millisecond}, rng, nil, w.names, func(int, int) string { return s.url })
		for p.count.Load() < n {
			time.Sleep(5 * time.Millisecond)
		}
		p.stop()
	}
	some(20)
	if err := quiet(s.url, quietLimit); err != nil {
		t.Fatal(err)
	}
	if v := w.judge(s.url, quietLimit); !v.Clean() || v.Accepted < 20 {
		t.Fatalf("before anything is planted: %+v", v)
	}

	// The folder of an earlier day is put back: what was accepted since is gone.
	s.kill()
	if err := os.CopyFS(s.dir+".earlier", os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	restart(t, s)
	some(20)
	s.kill()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(s.dir+".earlier", s.dir); err != nil {
		t.Fatal(err)
	}
	restart(t, s)
	if err := quiet(s.url, quietLimit); err != nil {
		t.Fatal(err)
	}
	h := w.history(s.url)
	if v := check.Judge(h); len(v.Missing) < 20 || len(v.FalseClaims) > 0 {
		t.Errorf("a folder of an earlier day: %v; want at least 20 missing", v.Findings())
	}

	// Somebody on the way takes what was for one endpoint and says 200.
	h.Seen = slices.DeleteFunc(h.Seen, func(one check.Seen) bool { return one.Endpoint == "swallowed" })
	if v := check.Judge(h); len(v.FalseClaims) == 0 || len(v.Lost) == 0 {
		t.Errorf("deliveries that never arrived: %v; want false claims", v.Findings())
	}
}
