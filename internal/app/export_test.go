package app

import (
	"context"
	"log/slog"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// NewStoreWatch returns a watch of the store by itself, and where it records
// events.
func NewStoreWatch(log *slog.Logger, logLimit int64, record func(hook.OperationalType, any)) *StoreWatch {
	w := newStoreWatch(log, logLimit)
	w.record.Store(&record)
	return &StoreWatch{w}
}

// StoreWatch shows a storeWatch to tests.
type StoreWatch struct{ w *storeWatch }

// LogIs tells it how long the log is.
func (s *StoreWatch) LogIs(bytes int64) { s.w.logIs(bytes) }

// Full tells why events are refused.
func (s *StoreWatch) Full() error { return s.w.full() }

// Warnings is what health shows.
func (s *StoreWatch) Warnings() []string { return s.w.warnings() }

// OutageLog returns a log in which an absence of the database is told once, and
// what notices its end.
func OutageLog(h slog.Handler, ping func(context.Context) error) (*slog.Logger, func(context.Context) error) {
	o := newOutage(h)
	o.ping = ping
	return slog.New(outageHandler{h, o}), o.run
}

// Record is how a disabler tells an endpoint's owner.
type Record func(tenant, endpoint hook.ID, t hook.OperationalType, detail any)

// Notifier is what a disabler notifies.
type Notifier interface {
	EndpointChanged(tenant, endpoint hook.ID)
}

// NewDisabler returns the disabler of endpoints by itself.
func NewDisabler(db store.DB, ids *hook.IDSource, n Notifier, record Record) dispatch.EndpointDisabler {
	return &disabler{store: db, ids: ids, notify: n, record: record}
}

// ServePprof is servePprof for tests; Allows says whether deliveries may go to
// a URL.
func (a *App) ServePprof(ctx context.Context) error {
	if err := a.listen(ctx); err != nil {
		return err
	}
	return a.servePprof(ctx)
}

// Allows says whether deliveries may go to a URL.
func (a *App) Allows(url string) bool {
	_, err := a.client.CheckURL(url)
	return err == nil
}

// PprofAddr is where profiles are served, empty before.
func (a *App) PprofAddr() string {
	if addr := a.ports.pprof.addr.Load(); addr != nil {
		return addr.String()
	}
	return ""
}
