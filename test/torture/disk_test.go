package torture_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// opKind says what a call did to the folder.
type opKind uint8

const (
	opCreate opKind = iota + 1
	opWrite
	opTruncate
	opSync
	opSyncDir
	opRename
	opRemove
)

// op is one call that has ended.
type op struct {
	kind     opKind
	file     int    // number of the file; it keeps it when it is renamed
	name, to string // opCreate, opRename, opRemove
	offset   int64  // opWrite; opTruncate: the new size
	data     []byte // opWrite
	begin    int    // syncs: calls that had ended when it began; later ones are not covered
}

// sector is what a disk writes whole or not at all.
const sector = 512

// disk is what a disk may hold when the power goes: everything that was synced,
// and of the rest whatever chance leaves.
//
// A sync of a file covers what had been written before the sync began, and the
// file's own name, as on ext4, XFS and btrfs; a sync of the folder covers all
// names.
type disk struct {
	files  map[int]*diskFile
	names  map[string]int // that are durable
	unsure []numbered     // creations, renames and removals that are not, in order
}

type diskFile struct {
	durable []byte
	unsure  []numbered
}

type numbered struct {
	op
	at int // position in the recording
}

func newDisk() *disk { return &disk{files: make(map[int]*diskFile), names: make(map[string]int)} }

// play applies the calls of a recording up to and without end.
func play(ops []op, end int) *disk {
	d := newDisk()
	for i, o := range ops[:end] {
		d.apply(i, o)
	}
	return d
}

func (d *disk) apply(at int, o op) {
	switch o.kind {
	case opCreate:
		d.files[o.file] = &diskFile{}
		d.unsure = append(d.unsure, numbered{o, at})
	case opRename, opRemove:
		d.unsure = append(d.unsure, numbered{o, at})
	case opWrite, opTruncate:
		f := d.files[o.file]
		f.unsure = append(f.unsure, numbered{o, at})
	case opSync:
		d.files[o.file].sync(o.begin)
		d.syncNames(func(n numbered) bool { return n.file == o.file && n.at < o.begin })
	case opSyncDir:
		d.syncNames(func(n numbered) bool { return n.at < o.begin })
	}
}

// sync makes durable what had ended before the sync began.
func (f *diskFile) sync(begin int) {
	var rest []numbered
	for _, n := range f.unsure {
		if n.at < begin {
			f.durable = n.onto(f.durable)
		} else {
			rest = append(rest, n)
		}
	}
	f.unsure = rest
}

func (d *disk) syncNames(covered func(numbered) bool) {
	var rest []numbered
	for _, n := range d.unsure {
		if covered(n) {
			n.rename(d.names)
		} else {
			rest = append(rest, n)
		}
	}
	d.unsure = rest
}

// rename applies a change of names.
func (o op) rename(names map[string]int) {
	switch o.kind { //nolint:exhaustive // the others change no names
	case opCreate:
		names[o.name] = o.file
	case opRename:
		if names[o.name] == o.file { // it may not have been durable itself
			delete(names, o.name)
		}
		names[o.to] = o.file
	case opRemove:
		delete(names, o.name)
	}
}

// onto applies a write or a truncation to the content of a file.
func (o op) onto(content []byte) []byte {
	if o.kind == opTruncate {
		return resize(content, int(o.offset))
	}
	if end := int(o.offset) + len(o.data); end > len(content) {
		content = resize(content, end)
	}
	copy(content[o.offset:], o.data)
	return content
}

func resize(content []byte, size int) []byte {
	if size <= len(content) {
		return content[:size]
	}
	return append(content, make([]byte, size-len(content))...)
}

// torn applies the sectors of a write that chance keeps.
func (o op) torn(content []byte, keep func() bool) []byte {
	if o.kind == opTruncate {
		if keep() {
			return o.onto(content)
		}
		return content
	}
	for from := 0; from < len(o.data); {
		to := min(from+sector-int(o.offset+int64(from))%sector, len(o.data))
		if keep() {
			content = op{kind: opWrite, offset: o.offset + int64(from), data: o.data[from:to]}.onto(content)
		}
		from = to
	}
	return content
}

// fate says what becomes of what was not synced.
type fate int

const (
	allGone   fate = iota // the cache of the file system is lost
	allThere              // as after a kill
	scattered             // each sector for itself
	firstOnes             // in order up to some moment, the last write torn
	lastOnes              // the order reversed: the early ones are missing
	fates
)

func (f fate) String() string {
	return [...]string{"all gone", "all there", "scattered sectors", "first ones, torn", "last ones, torn"}[f]
}

// image is what the disk holds after a power cut.
func (d *disk) image(f fate, rng *rand.Rand) map[string][]byte {
	share := []float64{0.1, 0.5, 0.9}[rng.IntN(3)]
	names := maps.Clone(d.names)
	// Changes of names go through a log: some first ones survive.
	for _, n := range d.unsure[:survivors(f, rng, len(d.unsure))] {
		n.rename(names)
	}
	out := make(map[string][]byte, len(names))
	for name, number := range names {
		out[name] = d.files[number].after(f, share, rng)
	}
	return out
}

func survivors(f fate, rng *rand.Rand, n int) int {
	switch f {
	case allGone:
		return 0
	case allThere:
		return n
	default:
		return rng.IntN(n + 1)
	}
}

// after is the content of one file after a power cut.
func (f *diskFile) after(what fate, share float64, rng *rand.Rand) []byte {
	content := append([]byte(nil), f.durable...)
	n := len(f.unsure)
	torn := rng.IntN(n + 1) // the one at the border
	for i, u := range f.unsure {
		keep := func() bool { return rng.Float64() < share }
		switch {
		case what == allGone, what == firstOnes && i > torn, what == lastOnes && i < torn:
			continue
		case what == allThere, what == firstOnes && i < torn, what == lastOnes && i > torn:
			keep = func() bool { return true }
		}
		content = u.torn(content, keep)
	}
	return content
}

// writeImage makes a data folder of an image. The -shm file is not synced by
// anybody: it is absent, or holds anything.
func writeImage(dir string, image map[string][]byte, rng *rand.Rand) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range image {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write image: %w", err)
		}
	}
	if _, store := image[storeFile]; !store || rng.IntN(2) == 0 {
		return nil
	}
	garbage := make([]byte, 32<<10)
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	return os.WriteFile(filepath.Join(dir, storeFile+"-shm"), garbage, 0o600)
}

// storeFile is the database in a data folder.
const storeFile = "breakwater.db"
