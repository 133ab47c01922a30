package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// fakeBackups hands out a text as the copy.
type fakeBackups struct {
	text string
	err  error
}

func (b *fakeBackups) Backup(context.Context) (io.ReadCloser, int64, error) {
	return io.NopCloser(strings.NewReader(b.text)), int64(len(b.text)), b.err
}

func TestBackupIsTheCopyOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.do(http.MethodPost, "/v1/backup", w.admin, "")
	if r.status != 200 || string(r.body) != w.backups.text || r.header.Get("Content-Length") != fmt.Sprint(len(w.backups.text)) {
		t.Errorf("POST /v1/backup = %d %v %q", r.status, r.header, r.body)
	}
	for _, tc := range []struct {
		err    error
		status int
		code   string
	}{
		{fmt.Errorf("%w: another backup is being made", hook.ErrStateConflict), 409, "state_conflict"},
		{hook.ErrStoreFull, 507, "disk_full"},
		{errors.New("no"), 500, "internal"},
	} {
		w.backups.err = tc.err
		r := w.do(http.MethodPost, "/v1/backup", w.admin, "")
		if p := r.problem(t); r.status != tc.status || p.Code != tc.code {
			t.Errorf("%v: %d %s, want %d %s", tc.err, r.status, p.Code, tc.status, tc.code)
		}
	}
}
