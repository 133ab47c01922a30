package process_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commandsOf returns the commands of a named code block of docs/operating.md.
func commandsOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```sh "+name+"\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("docs/operating.md has no block %q", name)
	}
	return block
}

// follow runs the commands of a block as a person would: in the folder where the
// server was started.
func (s *server) follow(block string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "bash", "-euc", commandsOf(s.t, block))
	cmd.Dir = filepath.Dir(s.dir)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"),
		"BREAKWATER_URL="+s.url, "BREAKWATER_API_KEY="+adminKey, "BREAKWATER_ENCRYPTION_KEY="+encryptionKey)
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", block, err, out)
	}
}

// accepted returns the ids of all events of a type.
func (s *server) accepted(eventType string) int {
	s.t.Helper()
	var list struct{ Data []struct{ ID string } }
	s.api("GET", "/events?limit=250&type="+eventType, nil, &list)
	return len(list.Data)
}

// TestBackupAndRestoreAsDocumented does what docs/operating.md says, with a server
// that is killed and leaves its log behind: the restored store has what the
// backup had, and is whole.
func TestBackupAndRestoreAsDocumented(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.kill() // start again in a folder with the documented name
	s.dir = filepath.Join(t.TempDir(), "breakwater-data")
	s.start()
	s.publish("before", 200)
	s.follow("backup")
	s.publish("after", 200)
	s.kill()
	if info, err := os.Stat(filepath.Join(s.dir, "breakwater.db-wal")); err != nil || info.Size() == 0 {
		t.Fatalf("the killed server left no log: %v", err)
	}
	s.follow("restore")
	s.start()
	if before, after := s.accepted("before"), s.accepted("after"); before != 200 || after != 0 {
		t.Errorf("%d events from before the backup and %d from after it, want 200 and 0", before, after)
	}
	s.publish("again", 10)
	s.stop()
	s.follow("check")
}
