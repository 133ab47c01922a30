package api

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
)

// Backups makes copies of the store while it is used.
type Backups interface {
	// Backup returns a copy and its size once it is complete. The caller closes
	// it. It fails with hook.ErrStateConflict while another one is made.
	Backup(ctx context.Context) (io.ReadCloser, int64, error)
}

const backupType = "application/vnd.sqlite3"

// addBackupRoute serves copies of the embedded store. The answer begins when the
// copy is complete.
func (a *API) addBackupRoute() {
	a.server.Plain(&huma.Operation{
		OperationID: "create-backup", Method: http.MethodPost, Path: "/v1/backup",
		Summary: "Make a copy of the SQLite store", Tags: []string{"server"},
		Description: "The answer is the copy: a database file. The key that seals secrets is not in it. One at a time; 409 with PostgreSQL, " +
			"which has tools of its own.",
		Responses: map[string]*huma.Response{"200": {
			Description: "The copy",
			Content:     map[string]*huma.MediaType{backupType: {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}},
		}},
	}, rest.NeedAdmin, a.backup)
}

func (a *API) backup(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	if a.cfg.Backups == nil {
		a.server.Fail(w, c, rest.Conflict("postgres", "the store is PostgreSQL: use its own tools, such as pg_dump"))
		return
	}
	if err := a.cfg.Store.WriteAudit(r.Context(), a.server.Audit(c, 0, "server.backup", "store", nil)); err != nil {
		a.server.Fail(w, c, err)
		return
	}
	copied, size, err := a.cfg.Backups.Backup(r.Context())
	if err != nil {
		a.server.Fail(w, c, err)
		return
	}
	defer func() { _ = copied.Close() }() // it was only read
	h := w.Header()
	h.Set("Content-Type", backupType)
	h.Set("Content-Length", strconv.FormatInt(size, 10))
	h.Set("Content-Disposition", `attachment; filename="breakwater.db"`)
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, copied); err != nil {
		a.cfg.Log.Warn("a backup was not taken to its end", "request_id", c.ID, "error", err)
	}
}
