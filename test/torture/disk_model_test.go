package torture_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestPowerCutsKeepWhatWasSynced checks the model of the disk: what was synced
// is there whatever happens, what was not may be there or not, and nothing
// else is.
func TestPowerCutsKeepWhatWasSynced(t *testing.T) {
	t.Parallel()
	page := func(c byte) []byte { return bytes.Repeat([]byte{c}, 4*sector) }
	ops := []op{
		{kind: opCreate, file: 1, name: "db"},
		{kind: opWrite, file: 1, data: page('a')},
		{kind: opSync, file: 1, begin: 2},
		{kind: opWrite, file: 1, data: page('b')},
		{kind: opWrite, file: 1, offset: 4 * sector, data: page('c')},
		{kind: opSync, file: 1, begin: 4}, // began before the write of c had ended
		{kind: opCreate, file: 2, name: "new"},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var sawTorn, sawNew bool
	for i := range 200 {
		f := fate(i) % fates
		image := play(ops, len(ops)).image(f, rng)
		got := image["db"]
		if !bytes.Equal(got[:min(len(got), 4*sector)], page('b')) {
			t.Fatalf("%v: what was synced is gone", f)
		}
		rest := got[4*sector:]
		if rest = bytes.ReplaceAll(rest, []byte{'c'}, nil); len(bytes.Trim(rest, "\x00")) > 0 {
			t.Fatalf("%v: something that nobody wrote", f)
		}
		for at := 0; at+sector <= len(rest); at += sector {
			sawTorn = true
		}
		_, there := image["new"]
		sawNew = sawNew || there
		switch {
		case f == allGone && (len(got) != 4*sector || there):
			t.Fatalf("%d bytes although nothing unsynced survives", len(got))
		case f == allThere && (len(got) != 8*sector || !there):
			t.Fatalf("%d bytes although everything survives", len(got))
		}
	}
	if !sawTorn || !sawNew {
		t.Errorf("torn %v, new file %v: chance never leaves anything", sawTorn, sawNew)
	}
}

func TestPowerCutsOfNames(t *testing.T) {
	t.Parallel()
	ops := []op{
		{kind: opCreate, file: 1, name: "tmp"},
		{kind: opWrite, file: 1, data: []byte("x")},
		{kind: opSync, file: 1, begin: 2},
		{kind: opRename, file: 1, name: "tmp", to: "key"},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	if image := play(ops, 3).image(allGone, rng); string(image["tmp"]) != "x" {
		t.Errorf("a synced file has no name: %v", image)
	}
	if image := play(ops, 4).image(allGone, rng); string(image["tmp"]) != "x" || image["key"] != nil {
		t.Errorf("a rename that was not synced: %v", image)
	}
	ops = append(ops, op{kind: opSyncDir, begin: 4})
	if image := play(ops, 5).image(allGone, rng); string(image["key"]) != "x" || len(image) != 1 {
		t.Errorf("a rename that was synced: %v", image)
	}
}
