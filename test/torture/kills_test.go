package torture_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// faultsPerRound is how many faults a store lives through before it is
// compared and a new one begins.
const faultsPerRound = 50

// rounds runs a number of faults in rounds of a few.
func rounds(faults int, round func(faults int)) {
	for faults > 0 {
		n := min(faults, faultsPerRound)
		faults -= n
		round(n)
	}
}

// TestKillsSQLite kills the one server of an embedded store at random moments
// under load, now and then in the middle of its start.
func TestKillsSQLite(t *testing.T) {
	rng := chance(t)
	kills := (todo.kills + 1) / 2
	line := result{part: "kill -9", store: "SQLite", faults: fmt.Sprintf("%d kills", kills)}
	binary := binaryOf(t, product)
	began := time.Now()
	rounds(kills, func(n int) { line.count(killRound(t, rng, binary, n)) })
	line.took = time.Since(began)
	fileLine(t, line)
	limitRepeats(t, line.again, kills, 1)
}

func killRound(t *testing.T, rng *rand.Rand, binary string, kills int) check.Verdict {
	t.Helper()
	w := newWorld(t, rng, nil, usual())
	s := newServer(t, "embedded", binary, filepath.Join(t.TempDir(), "data"))
	restart(t, s)
	w.create(s.url)
	p := publish(t, w.dir, load{clients: 8, pause: 20 * time.Millisecond}, rng, nil, w.names, func(int, int) string { return s.url })
	for done := 0; done < kills; {
		time.Sleep(between(rng, 50*time.Millisecond, 1500*time.Millisecond))
		if s.died() {
			t.Fatalf("the server ended by itself: %s", s.lastLines(5))
		}
		if rng.IntN(10) == 0 { // woken up on another day: nothing may depend on the time that passed
			s.signal(syscall.SIGSTOP)
			time.Sleep(between(rng, 10*time.Millisecond, 500*time.Millisecond))
			s.signal(syscall.SIGCONT)
			continue
		}
		s.kill()
		done++
		if done < kills && rng.IntN(5) == 0 {
			if err := s.startAndKill(between(rng, 0, 400*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			done++
		}
		restart(t, s)
	}
	p.stop()
	v := w.judge(s.url, quietLimit)
	s.kill()
	t.Logf("%d kills: %d accepted, %d arrived again", kills, v.Accepted, v.Again)
	if err := intact(filepath.Join(s.dir, storeFile)); err != nil {
		t.Error(err)
	}
	return v
}

func restart(t *testing.T, s *server) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// limitRepeats checks that no more arrived again than servers may have had in
// flight at the moments of the faults.
func limitRepeats(t *testing.T, again, faults, servers int) {
	t.Helper()
	if most := faults * servers * maxInFlight; again > most {
		t.Errorf("%d arrived again, at most %d in flight per server and fault", again, maxInFlight)
	}
}
