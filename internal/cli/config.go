package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
)

func (s *session) configCommand() *cobra.Command {
	return kit.Group("config", "Check or print the configuration",
		s.configured("check", "Check flags, environment and file without starting", func(context.Context, *config.Config) error {
			return s.Print(map[string]bool{"ok": true}, "", "configuration is ok\n")
		}),
		s.configured("print", "Print every effective setting and where it came from; secrets are masked",
			func(_ context.Context, cfg *config.Config) error { return s.printSettings(cfg.Effective()) }),
	)
}

func (s *session) printSettings(settings []config.Setting) error {
	if s.JSON {
		return s.PrintJSON(settings)
	}
	var rows [][]string
	for _, item := range settings {
		rows = append(rows, []string{item.Key, kit.Dash(item.Value), item.Origin})
	}
	return s.PrintRows(rows)
}

func (s *session) migrateCommand() *cobra.Command {
	return kit.Group("migrate", "Show or apply the migrations of the store",
		s.migration("status", "Show which migrations are applied", app.MigrationStatus),
		s.migration("up", "Apply the migrations that are pending", app.MigrateUp),
	)
}

// migration is a command that prints the migrations that run returns.
func (s *session) migration(use, short string, run func(context.Context, app.Options) ([]app.Migration, error)) *cobra.Command {
	return s.configured(use, short, func(ctx context.Context, cfg *config.Config) error {
		cfg.Options.Version = Version()
		cfg.Options.Log = newLogger(s.Stderr, cfg)
		list, err := run(ctx, cfg.Options)
		if err != nil {
			return err
		}
		return s.printMigrations(list)
	})
}

func (s *session) printMigrations(list []app.Migration) error {
	type shown struct {
		Version   int       `json:"version"`
		Name      string    `json:"name"`
		AppliedAt time.Time `json:"applied_at,omitzero"`
	}
	out := make([]shown, len(list))
	for i, m := range list {
		out[i] = shown(m)
	}
	if s.JSON {
		return s.PrintJSON(out)
	}
	rows := [][]string{{"VERSION", "NAME", "APPLIED"}}
	for _, m := range out {
		applied := "pending"
		if !m.AppliedAt.IsZero() {
			applied = kit.Clock(m.AppliedAt)
		}
		rows = append(rows, []string{strconv.Itoa(m.Version), m.Name, applied})
	}
	return s.PrintRows(rows)
}
