package app_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// dataDir returns the data folder of a server that has run once, and the key of
// its admin.
func dataDir(t *testing.T) (dir, key string) {
	t.Helper()
	dir = t.TempDir()
	t.Run("first start", func(t *testing.T) {
		s, _, _ := run(t, dir, "")
		key = s.key
	})
	return dir, key
}

// damagePage overwrites the root page of a table or an index.
func damagePage(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, "breakwater.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	var root, size int64
	err = errors.Join(
		db.QueryRowContext(t.Context(), "SELECT rootpage FROM sqlite_schema WHERE name = ?", name).Scan(&root),
		db.QueryRowContext(t.Context(), "PRAGMA page_size").Scan(&size), db.Close())
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (root-1)*size)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

// logText is a log that can be read while it is written.
type logText struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// run starts a server on a folder and returns it with its log and its end.
func run(t *testing.T, dir, key string, tune ...func(*app.Options)) (s *server, log *logText, ended <-chan error) {
	t.Helper()
	cfg, err := config.Load(config.Input{Version: "test", Environ: []string{
		"BREAKWATER_DATA_DIR=" + dir, "BREAKWATER_LISTEN=127.0.0.1:0", "BREAKWATER_DEV=true",
	}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan app.Started, 1)
	log = &logText{}
	cfg.Options.Announce = func(s app.Started) { started <- s }
	cfg.Options.Log = slog.New(slog.NewTextHandler(log, nil))
	for _, fn := range tune {
		fn(&cfg.Options)
	}
	a, err := app.New(cfg.Options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		done <- a.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-over
	})
	select {
	case st := <-started:
		return &server{t, st.URL, cmp.Or(key, st.AdminKey)}, log, done
	case err := <-done:
		t.Fatalf("the server ended: %v", err)
		return nil, nil, nil
	}
}

// TestDamageIsToldAndTheRestGoesOn damages what one list needs: only that request
// fails, as one that may be sent again, and whoever runs the server hears of it.
func TestDamageIsToldAndTheRestGoesOn(t *testing.T) { //nolint:tparallel // there are no subtests
	t.Parallel()
	dir, key := dataDir(t)
	damagePage(t, dir, "replays_tenant")
	s, log, _ := run(t, dir, key)
	const list = "/v1/tenants/default/replays"
	for range 3 {
		if status, body := s.do(http.MethodGet, s.url+list, key, ""); status != 503 || !strings.Contains(body, "store_damaged") {
			t.Fatalf("%s = %d %s, want 503 store_damaged", list, status, body)
		}
	}
	s.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"a","payload":1}`)
	if n := strings.Count(log.String(), "A PART OF THE STORE IS DAMAGED"); n != 1 {
		t.Errorf("%d lines tell of the damage, want 1:\n%s", n, log)
	}
	if _, metrics := s.do(http.MethodGet, s.url+"/metrics", "", ""); !strings.Contains(metrics, "breakwater_store_damaged_reads_total 3") {
		t.Error("the metrics do not count the reads that failed")
	}
	s.eventually("the damage is recorded", func() bool {
		return strings.Contains(s.api(http.MethodGet, "/v1/operational-events?type=store.damaged", ""), `"store.damaged"`)
	})
}

// TestDamagedFiguresAreLeftOut: one row that cannot be read hides no others.
func TestDamagedFiguresAreLeftOut(t *testing.T) { //nolint:tparallel // there are no subtests
	t.Parallel()
	dir, key := dataDir(t)
	db, err := sql.Open("sqlite", filepath.Join(dir, "breakwater.db"))
	if err != nil {
		t.Fatal(err)
	}
	minute := time.Now().Add(-10 * time.Minute).Truncate(time.Minute).Unix()
	_, err = db.ExecContext(t.Context(), `INSERT INTO stats (level, subject, step, at, trouble, data) VALUES (0, 0, 0, ?, 0, x'00'), (0, 0, 0, ?, 0, x'0105')`,
		minute, minute-60)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s, log, _ := run(t, dir, key)
	for range 2 {
		if status, body := s.do(http.MethodGet, s.url+"/v1/stats", key, ""); status != 200 || !strings.Contains(body, `"events":5`) {
			t.Errorf("stats = %d %s, want the five events that can be read", status, body)
		}
	}
	if n := strings.Count(log.String(), "figures are damaged"); n != 1 {
		t.Errorf("%d lines tell of the damage, want 1:\n%s", n, log)
	}
	if _, metrics := s.do(http.MethodGet, s.url+"/metrics", "", ""); strings.Contains(metrics, "breakwater_stats_damaged_rows_total 0") ||
		!strings.Contains(metrics, "breakwater_stats_damaged_rows_total ") {
		t.Error("the metrics do not count what could not be read")
	}
}

// TestLostStoreEndsTheServer lets a change of an endpoint meet damage. Nobody
// publishes, so that the writer of events would never hear of it.
func TestLostStoreEndsTheServer(t *testing.T) { //nolint:tparallel // there are no subtests
	t.Parallel()
	dir, key := dataDir(t)
	damagePage(t, dir, "secrets_endpoint")
	s, _, ended := run(t, dir, key)
	status, body := s.do(http.MethodPost, s.url+"/v1/tenants/default/endpoints", key, `{"url":"http://127.0.0.1:9000/"}`)
	if status != 503 || !strings.Contains(body, "store_unavailable") {
		t.Fatalf("create endpoint = %d %s, want 503 store_unavailable", status, body)
	}
	if err := <-ended; !errors.Is(err, store.ErrFatal) {
		t.Errorf("Run = %v, want ErrFatal", err)
	}
}

// TestLongLogIsToldAndBounded lets the log grow and shrink again.
func TestLongLogIsToldAndBounded(t *testing.T) {
	t.Parallel()
	var told []hook.OperationalType
	log := &logText{}
	w := app.NewStoreWatch(slog.New(slog.NewTextHandler(log, nil)), 1000, func(e hook.OperationalType, _ any) { told = append(told, e) })
	for _, tc := range []struct {
		bytes          int64
		warned, refuse bool
	}{
		{0, false, false},
		{250, false, false},
		{251, true, false},
		{999, true, false},
		{1000, true, true},
		{5000, true, true},
		{999, true, false},
		{1000, true, true},
		{100, false, false},
		{300, true, false},
	} {
		w.LogIs(tc.bytes)
		if warned := len(w.Warnings()) > 0; warned != tc.warned {
			t.Errorf("%d bytes: warned %v, want %v", tc.bytes, warned, tc.warned)
		}
		if err := w.Full(); (err != nil) != tc.refuse || err != nil && !errors.Is(err, hook.ErrStoreFull) {
			t.Errorf("%d bytes: %v, want a refusal: %v", tc.bytes, err, tc.refuse)
		}
	}
	if want := []hook.OperationalType{hook.StoreLogGrowing, hook.StoreLogSettled, hook.StoreLogGrowing}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
	if n := strings.Count(log.String(), "the log of the store grows"); n != 2 {
		t.Errorf("%d lines tell of the growth, want 2:\n%s", n, log)
	}
}

// TestOutsideReaderLetsTheLogGrow lets another program read the file of a server
// and not end. The log grows, which is told and shown; past its limit new events
// are refused. When the reader has gone, they are taken again.
func TestOutsideReaderLetsTheLogGrow(t *testing.T) {
	t.Parallel()
	const limit, payload = 80 << 20, 1 << 20 // above what is left of a log that was shortened
	dir := t.TempDir()
	s, log, _ := run(t, dir, "", func(o *app.Options) { o.LogLimit, o.MaxPayload = limit, 2*payload })
	db, err := sql.Open("sqlite", filepath.Join(dir, "breakwater.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	reader, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reader.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n); err != nil {
		t.Fatal(err)
	}

	event := `{"type":"a","payload":"` + strings.Repeat("x", payload) + `"}`
	publish := func() (int, string) { return s.do(http.MethodPost, s.url+"/v1/tenants/default/events", s.key, event) }
	accepted, refusal := 0, ""
	for refusal == "" {
		switch status, text := publish(); {
		case status == 202 && accepted < 4*limit/payload:
			accepted++
		case status == 507:
			refusal = text
		default:
			t.Fatalf("event %d = %d %s", accepted, status, text)
		}
	}
	if !strings.Contains(refusal, "disk_full") || accepted < limit/payload/2 {
		t.Errorf("after %d events of %d bytes: %s", accepted, payload, refusal)
	}
	const grows = "the log of the store grows: another program reads the database file"
	if text := log.String(); strings.Count(text, grows) != 1 {
		t.Errorf("want one line that tells of the growth:\n%s", text)
	}
	if ready := s.api(http.MethodGet, "/readyz", ""); !strings.Contains(ready, grows) {
		t.Errorf("/readyz = %s", ready)
	}
	s.eventually("the growth is recorded", func() bool {
		return strings.Contains(s.api(http.MethodGet, "/v1/operational-events?type=store.log.growing", ""), `"log_bytes"`)
	})
	_, metrics := s.do(http.MethodGet, s.url+"/metrics", "", "")
	if !strings.Contains(metrics, "breakwater_store_log_bytes ") || !strings.Contains(metrics, "breakwater_store_log_limit_bytes 8.388608e+07") {
		t.Error("the metrics do not show the log and its limit")
	}

	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.eventually("events are taken again", func() bool { status, _ := publish(); return status == 202 })
}

// TestPortInUseLeavesNoFolder starts where another process listens.
func TestPortInUseLeavesNoFolder(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, setting := range []string{"BREAKWATER_LISTEN", "BREAKWATER_METRICS_LISTEN", "BREAKWATER_PPROF_LISTEN"} {
		dir := filepath.Join(t.TempDir(), "data")
		env := []string{"BREAKWATER_DATA_DIR=" + dir, setting + "=" + taken.Addr().String()}
		if setting != "BREAKWATER_LISTEN" {
			env = append(env, "BREAKWATER_LISTEN=127.0.0.1:0")
		}
		cfg, err := config.Load(config.Input{Version: "test", Environ: env})
		if err != nil {
			t.Fatal(err)
		}
		a, err := app.New(cfg.Options)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Run(t.Context()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: Run = %v, want EADDRINUSE", setting, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder was made (%v)", setting, err)
		}
	}
}
