package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/upkeep"
)

func (s *session) rekeyCommand() *cobra.Command {
	var file string
	cmd := s.configured("rekey --new-key-file FILE", "Seal all secrets with a new encryption key", func(ctx context.Context, cfg *config.Config) error {
		if file == "" {
			return kit.Usagef("--new-key-file: name the file of the new key; make one with: openssl rand -base64 32 > new.key && chmod 600 new.key")
		}
		cfg.Options.Version, cfg.Options.Log = Version(), newLogger(s.Stderr, cfg)
		progress := s.NewProgress("sealing values", 0)
		out, err := upkeep.Rekey(ctx, cfg.Options, file, progress.Set)
		progress.End()
		if errors.Is(err, fs.ErrNotExist) {
			err = kit.Usage(err)
		}
		if err != nil {
			return err
		}
		return s.printRekeyed(&out)
	})
	cmd.Long = "Seal the secrets and headers of endpoints, what alert channels keep to themselves and kept answers with a new key.\n" +
		"The old key is the one that the settings give. Cut short at any moment, it goes on when it is run again.\n" +
		"SQLite: stop the server first. PostgreSQL: nodes may run if all of them have both keys (encryption_key NEW,OLD).\n" +
		"Make a key with: openssl rand -base64 32 > new.key && chmod 600 new.key"
	cmd.Example = "  breakwater rekey --new-key-file new.key"
	cmd.Flags().StringVar(&file, "new-key-file", "", "file with the new key: 32 bytes in base64, readable by its owner only")
	return cmd
}

func (s *session) printRekeyed(out *upkeep.Rekeyed) error {
	err := s.Print(map[string]any{
		"key": out.Key, "values": out.Values, "resealed": out.Resealed, "complete": out.Complete(),
		"problems": kit.OrEmpty(out.Problems), "lagging_nodes": kit.OrEmpty(out.Lagging), "key_file": out.KeyFile, "old_key_files": kit.OrEmpty(out.OldFiles),
	}, "", "key %s: %s, %d of them sealed now\n", out.Key, kit.Plural(out.Values, "value", "values"), out.Resealed)
	if err != nil {
		return err
	}
	for _, p := range out.Problems {
		s.Note("not sealed anew: %s", p)
	}
	switch {
	case len(out.Problems) > 0:
		return fmt.Errorf("%w: the old key is still needed; give those endpoints new secrets (endpoints rotate-secret), or delete them, and run again", kit.ErrPartly)
	case len(out.Lagging) > 0:
		return fmt.Errorf("%w: these nodes still seal with another key: %s; restart them with encryption_key NEW,OLD and run again", kit.ErrPartly, strings.Join(out.Lagging, ", "))
	case out.KeyFile != "":
		s.Note("%s holds the new key; keep a copy of it elsewhere", out.KeyFile)
		for _, old := range out.OldFiles {
			s.Note("%s holds the old key, which backups made until now need; move it to where they are", old)
		}
	default:
		s.Note("next: start servers with the new key as encryption_key; the old one is needed for backups made until now only")
	}
	return nil
}
