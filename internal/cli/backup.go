package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
)

func (s *session) backupCommand() *cobra.Command {
	var to, dir string
	cmd := &cobra.Command{
		Use: "backup --to FILE", Short: "Copy the SQLite store of a running server", Args: kit.WantArgs(0, 0),
		Example: "  breakwater backup --to /backup/breakwater.db",
		Long: "Copy the SQLite store of a running server, which goes on accepting and delivering, check the copy and put it at FILE.\n" +
			"Needs an admin key. With --data-dir, copy the store of a server that does not run.\n" +
			"The key that seals secrets is not in the copy: keep secret.key, or your encryption key, elsewhere.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return kit.Usagef("--to: name the file of the backup")
			}
			return s.backup(cmd.Context(), to, dir)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "file to make; it must not exist")
	cmd.Flags().StringVar(&dir, "data-dir", "", "folder of a server that does not run")
	cmd.Flags().SetNormalizeFunc(shortDataDir)
	return cmd
}

// shortDataDir lets people write --data.
func shortDataDir(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "data" {
		name = "data-dir"
	}
	return pflag.NormalizedName(name)
}

// backup makes the copy under another name first: at its place there is all of
// it or nothing.
func (s *session) backup(ctx context.Context, to, dir string) error {
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return kit.Usagef("--to: %s exists already", to)
	}
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the rest of an earlier backup: %w", err)
	}
	defer func() { _ = os.Remove(part) }() // gone when all went well
	var err error
	if dir != "" {
		err = app.BackUpFolder(ctx, dir, part)
	} else {
		err = s.fetchBackup(ctx, part)
	}
	if err != nil {
		return err
	}
	if err := app.CheckBackup(ctx, part); err != nil {
		return fmt.Errorf("the copy is no good: %w", err)
	}
	if err := os.Rename(part, to); err != nil {
		return fmt.Errorf("put the backup in place: %w", err)
	}
	if err := flushFolder(filepath.Dir(to)); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err != nil {
		return fmt.Errorf("look at the backup: %w", err)
	}
	return s.Print(map[string]any{"file": to, "bytes": info.Size()}, "", "%s: %d bytes, checked\n", to, info.Size())
}

// fetchBackup asks a server for a copy. There is no limit of time: nobody knows
// how much it is.
func (s *session) fetchBackup(ctx context.Context, path string) (err error) {
	c, err := s.Client()
	if err != nil {
		return err
	}
	resp, err := c.Do(ctx, kit.Request{Method: http.MethodPost, Path: "v1/backup"})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make backup: %w", err)
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("make backup: %w", closeErr)
		}
	}()
	counted := &counter{progress: s.NewProgress("MiB copied", 0)}
	_, err = io.Copy(io.MultiWriter(file, counted), resp.Body)
	counted.progress.End()
	if err != nil {
		return fmt.Errorf("take backup: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("flush backup: %w", err)
	}
	return nil
}

// counter tells how much has passed.
type counter struct {
	progress *kit.Progress
	bytes    int
}

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += len(p)
	c.progress.Set(c.bytes >> 20)
	return len(p), nil
}

func flushFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("flush folder: %w", err)
	}
	return nil
}

func (s *session) restoreCommand() *cobra.Command {
	var from string
	cmd := s.configured("restore --from FILE", "Put a backup of the SQLite store in place", func(ctx context.Context, cfg *config.Config) error {
		if from == "" {
			return kit.Usagef("--from: name the file of the backup")
		}
		done, err := app.Restore(ctx, cfg.Options, from)
		if err != nil {
			return err
		}
		return s.printRestored(done)
	})
	cmd.Example = "  breakwater restore --from /backup/breakwater.db --data-dir breakwater-data"
	cmd.Long = "Check a backup and put it in place in the data folder (--data-dir). The folder must hold no part of a store:\n" +
		"move breakwater.db, breakwater.db-wal and breakwater.db-shm away first."
	cmd.Flags().StringVar(&from, "from", "", "file of the backup")
	cmd.Flags().SetNormalizeFunc(shortDataDir)
	return cmd
}

func (s *session) printRestored(done app.Restored) error {
	if done.MissingKey != "" {
		s.Note("put the key that seals secrets in place before you start: %s is not there", done.MissingKey)
	}
	return s.Print(map[string]string{"file": done.File, "missing_key": done.MissingKey}, "", "%s restored and checked\n", done.File)
}
