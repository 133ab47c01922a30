package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// Commands returns the commands of the package.
func Commands(s *kit.Session) []*cobra.Command {
	return []*cobra.Command{exportCommand(s), importCommand(s, "import"), importCommand(s, "apply")}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// exporter is one export.
type exporter struct {
	*kit.Session

	what, since, file string
	secrets           bool
	oneTenant         bool // --tenant was given
}

// streams are what is exported line by line.
var streams = map[string]struct {
	path  string
	query url.Values
}{
	"dead":   {"T/dead-letters", url.Values{}},
	"events": {"T/events", url.Values{"with": {"payload"}}},
}

func exportCommand(s *kit.Session) *cobra.Command {
	e := &exporter{Session: s}
	cmd := &cobra.Command{
		Use: "export", Short: "Write configuration, dead letters or events to a file", Args: kit.WantArgs(0, 0),
		Long: "Write the configuration as YAML, or JSON with --json, that import reads (policies, tenants, endpoints, alert channels), or dead letters or\n" +
			"events as one JSON document in each line, oldest first. All tenants, or the one that --tenant names. Needs an admin key\n" +
			"unless --tenant is given. Values of headers cannot be read back; they are written as ***.",
		Example: "  breakwater export -o breakwater-config.yaml\n  breakwater export --what dead --since 7d --tenant acme | jq .reason",
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.oneTenant = cmd.Flags().Changed("tenant") && s.Tenant != "-"
			return e.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&e.what, "what", "config", "config, dead or events")
	flags.StringVar(&e.since, "since", "", "dead, events: from this time on, or this long ago (24h)")
	flags.StringVarP(&e.file, "output", "o", "", "file to write (default stdout); what is there is replaced when all is written")
	flags.BoolVar(&e.secrets, "with-secrets", false, "config: with the signing secrets of endpoints; every read of one is audited")
	return cmd
}

func (e *exporter) run(ctx context.Context) error {
	_, stream := streams[e.what]
	switch {
	case !stream && e.what != "config":
		return kit.Usagef("--what: %q must be config, dead or events", e.what)
	case !stream && e.since != "":
		return kit.Usagef("--since: goes with --what dead or events")
	case stream && e.secrets:
		return kit.Usagef("--with-secrets: goes with --what config")
	}
	if stream && !e.oneTenant {
		e.Tenant = "-"
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	n := 0
	err = e.write(func(w io.Writer) (err error) {
		if stream {
			n, err = e.stream(ctx, c, w)
			return err
		}
		doc, err := e.config(ctx, c)
		if err != nil {
			return err
		}
		n = doc.count()
		return writeDocument(w, doc, e.JSON)
	})
	if err == nil && e.file != "" && !e.Quiet {
		e.Note("%s: %s", e.file, kit.Plural(n, "object", "objects"))
	}
	return err
}

// write gives fn the place to write to. A file is there as a whole or not at all, and
// is its owner's alone.
func (e *exporter) write(fn func(io.Writer) error) (err error) {
	if e.file == "" || e.file == "-" {
		out := bufio.NewWriter(e.Stdout)
		if err := fn(out); err != nil {
			return errors.Join(err, out.Flush())
		}
		return out.Flush()
	}
	part := e.file + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return kit.Usagef("--output: %w", err)
	}
	out := bufio.NewWriter(f)
	if err = fn(out); err == nil {
		err = out.Flush()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(part) // half a file is none
		return err
	}
	if err := os.Rename(part, e.file); err != nil {
		return fmt.Errorf("put the file in place: %w", err)
	}
	return nil
}

// config reads the whole configuration.
func (e *exporter) config(ctx context.Context, c *kit.Client) (document, error) {
	s := &state{c: c}
	doc := document{}
	progress := e.NewProgress("reading objects", 0)
	defer progress.End()
	read := 0
	var fill func(k *kind, list []*stored) ([]*item, error)
	fill = func(k *kind, list []*stored) ([]*item, error) {
		out := make([]*item, len(list))
		for i, st := range list {
			read++
			progress.Set(read)
			if f := k.field(secretsField); f != nil && e.secrets {
				secrets, err := s.secretsOf(ctx, st.at)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", k.noun, st.name(), err)
				}
				st.values[f.name] = secrets
			}
			for _, w := range k.within {
				all, err := s.readAll(ctx, w, st.id)
				if err != nil {
					return nil, err
				}
				if st.within[w.section], err = fill(w, all); err != nil {
					return nil, err
				}
			}
			out[i] = &st.item
		}
		return out, nil
	}
	for _, k := range kinds {
		var list []*stored
		var err error
		switch {
		case !e.oneTenant:
			list, err = s.readAll(ctx, k, "")
		case len(k.within) > 0:
			var one *stored
			one, err = s.readOne(ctx, k, e.Tenant)
			list = []*stored{one}
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if doc[k.section], err = fill(k, list); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

// count counts the objects of a document.
func (d document) count() (n int) {
	for _, items := range d {
		n += len(items)
		for _, it := range items {
			n += document(it.within).count()
		}
	}
	return n
}

// streamPage is how much is asked for at once.
const streamPage = 250

// stream writes one object to a line as pages come.
func (e *exporter) stream(ctx context.Context, c *kit.Client, w io.Writer) (n int, err error) {
	progress := e.NewProgress(e.what+" written", 0)
	defer progress.End()
	query := url.Values{"order": {"asc"}, "limit": {strconv.Itoa(streamPage)}}
	maps.Copy(query, streams[e.what].query)
	if e.since != "" {
		query.Set("since", e.since)
	}
	for {
		var page kit.Page
		err := patiently(ctx, func() error {
			return c.Call(ctx, kit.Request{Method: http.MethodGet, Path: streams[e.what].path, Query: query}, &page)
		})
		if err != nil {
			return n, err
		}
		for _, raw := range page.Data {
			if _, err := w.Write(append(raw, '\n')); err != nil {
				return n, fmt.Errorf("write output: %w", err)
			}
			n++
			progress.Set(n)
		}
		if page.Next == nil || *page.Next == "" {
			return n, nil
		}
		query.Set("cursor", *page.Next)
	}
}
