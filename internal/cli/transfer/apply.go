package transfer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/pause"
)

// importer is one import.
type importer struct {
	*kit.Session

	dry, prune, yes, secrets bool

	client *kit.Client
}

// importCommand is import, which people who keep their files in a repository call
// apply.
func importCommand(s *kit.Session, name string) *cobra.Command {
	i := &importer{Session: s}
	cmd := &cobra.Command{
		Use: name + " FILE", Short: "Make the configuration of a server what a file says", Args: kit.WantArgs(1, 1),
		Long: "Compare a file, as export writes it, with the server, show what differs and change that. Run again, it changes nothing.\n" +
			"Objects are told apart by uid, policies and alert channels by name. What the file does not have stays, unless --prune\n" +
			"is given; even then sections that the file leaves out are left alone. Needs an admin key. FILE - is stdin.",
		Example: "  breakwater " + name + " breakwater-config.yaml --dry-run\n  breakwater " + name + " breakwater-config.yaml --prune --yes",
		RunE:    func(cmd *cobra.Command, args []string) error { return i.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&i.dry, "dry-run", false, "show what would be changed, and change nothing")
	flags.BoolVar(&i.prune, "prune", false, "delete what the file does not have, in the sections that it has")
	flags.BoolVar(&i.yes, "yes", false, "delete without asking")
	flags.BoolVar(&i.secrets, "with-secrets", false, "write hidden values that the file has (of headers, chat URLs) also where they cannot be compared")
	return cmd
}

func (i *importer) run(ctx context.Context, file string) error {
	doc, err := i.open(file)
	if err != nil {
		return err
	}
	if i.client, err = i.Client(); err != nil {
		return err
	}
	p := &planner{state: &state{c: i.client}, prune: i.prune, secrets: i.secrets}
	if err := p.plan(ctx, doc); err != nil {
		return err
	}
	if p.unseen > 0 {
		i.Note("%s hidden on the server and cannot be compared; --with-secrets writes what the file has", kit.Plural(p.unseen, "value is", "values are"))
	}
	if !i.JSON {
		if err := i.printPlan(p.steps); err != nil {
			return err
		}
	}
	if i.dry {
		return i.finish(p.steps)
	}
	if _, _, n := counts(p.steps); n > 0 {
		if err := i.Confirm(i.yes, fmt.Sprintf("This deletes %s for good.", kit.Plural(n, "object", "objects"))); err != nil {
			return err
		}
	}
	i.apply(ctx, p.steps)
	return i.finish(p.steps)
}

func (i *importer) open(file string) (document, error) {
	if file == "-" {
		if i.Stdin == nil {
			return nil, kit.Usagef("stdin: there is none")
		}
		return readDocument("stdin", i.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, kit.Usagef("FILE: %w", err)
	}
	defer f.Close()
	return readDocument(file, f)
}

func (i *importer) printPlan(steps []*step) error {
	if i.Quiet {
		return nil
	}
	for _, s := range steps {
		line := fmt.Sprintf("%s %s %s", signs[s.Action], s.Kind, s.Name)
		if len(s.Fields) > 0 {
			line += ": " + strings.Join(s.Fields, ", ")
		}
		if err := i.Printf("%s\n", line); err != nil {
			return err
		}
	}
	made, changed, removed := counts(steps)
	return i.Printf("+%d ~%d -%d\n", made, changed, removed)
}

// How a step ended.
const (
	done    = "done"
	failed  = "failed"
	skipped = "skipped"
	planned = "planned"
)

// apply makes the changes, one after the other. One that fails keeps nothing from the
// others but what it was to hold.
func (i *importer) apply(ctx context.Context, steps []*step) {
	progress := i.NewProgress("changing objects", len(steps))
	defer progress.End()
	for n, s := range steps {
		switch {
		case ctx.Err() != nil:
			s.Result = skipped
		case s.owner != nil && s.owner.Result != done:
			s.Result, s.Error = skipped, "its tenant was not made"
		default:
			s.Result = done
			if err := i.do(ctx, s); err != nil {
				s.Result, s.Error, s.err = failed, err.Error(), err
				i.Note("%s %s %s%s: %v", signs[s.Action], s.Kind, s.Name, s.place(), err)
			}
		}
		progress.Set(n + 1)
	}
	if err := ctx.Err(); err != nil {
		i.Note("interrupted; run the same command again to go on")
	}
}

// place is where the file speaks of it.
func (s *step) place() string {
	if s.item == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, line %d)", s.item.path, s.item.line)
}

// finish tells how it went.
func (i *importer) finish(steps []*step) error {
	bad := 0
	var first *step
	for _, s := range steps {
		if i.dry {
			s.Result = planned
		}
		if s.Result == failed || s.Result == skipped {
			bad++
			if first == nil {
				first = s
			}
		}
	}
	if i.JSON {
		made, changed, removed := counts(steps)
		if err := i.PrintJSON(map[string]any{
			"steps": kit.OrEmpty(steps), "created": made, "changed": changed, "deleted": removed, "failed": bad, "dry_run": i.dry,
		}); err != nil {
			return err
		}
	}
	switch {
	case bad == 0:
		return nil
	case bad == len(steps) && first.err != nil:
		return errors.Join(kit.ErrSilent, first.err)
	}
	return fmt.Errorf("%d of %s: %w; correct what is named above and run again", bad, kit.Plural(len(steps), "change", "changes"), kit.ErrPartly)
}

// do makes one change.
func (i *importer) do(ctx context.Context, s *step) error {
	if s.Action == remove {
		return i.call(ctx, http.MethodDelete, s.stored.at, nil, nil)
	}
	at := ""
	if s.stored != nil {
		at = s.stored.at
	}
	switch k := s.item.kind; {
	case k.put && len(s.body) > 0:
		if at == "" {
			at = s.list + "/" + url.PathEscape(s.item.key)
		}
		if err := i.call(ctx, http.MethodPut, at, s.whole(), nil); err != nil {
			return err
		}
	case s.Action == create:
		var answer struct{ ID string }
		if err := i.call(ctx, http.MethodPost, s.list, s.body, &answer); err != nil {
			return err
		}
		at = s.list + "/" + url.PathEscape(answer.ID)
		if s.item.kind.noun == "alert channel" && s.body["kind"] == "webhook" && s.body["secret"] == nil {
			i.Note("%s has a secret that the server made and does not show again; give one as secret in the file", s.Name)
		}
	case len(s.body) > 0:
		if err := i.call(ctx, http.MethodPatch, at, s.body, nil, fmt.Sprintf("%q", count(s.stored.object["version"]))); err != nil {
			return err
		}
	}
	return i.followUp(ctx, s, at)
}

// whole is the object as it is to be, for those that are written as a whole.
func (s *step) whole() object {
	body := object{}
	for i := range s.item.kind.fields {
		if f := &s.item.kind.fields[i]; !f.apart {
			if v := s.item.value(f); v != nil {
				body[f.name] = v
			}
		}
	}
	return body
}

// followUp grants what has ways of its own.
func (i *importer) followUp(ctx context.Context, s *step, at string) error {
	for _, secret := range s.rotate {
		if err := i.call(ctx, http.MethodPost, at+"/rotate-secret", object{"secret": secret}, nil); err != nil {
			return err
		}
	}
	action := map[string]string{"active": "resume", "paused": "pause", "disabled": "disable"}[s.status]
	if action == "" {
		return nil
	}
	if s.status == "paused" && s.stored != nil && str(s.stored.object[statusField]) == "disabled" {
		// The API pauses no endpoint that is off, which is more. It is on for a moment.
		if err := i.call(ctx, http.MethodPost, at+"/resume", object{}, nil); err != nil {
			return err
		}
	}
	return i.call(ctx, http.MethodPost, at+"/"+action, object{}, nil)
}

// call sends one request, and again when the server has no time: a change under the
// same key is made once. The problems that it names are those of the file.
func (i *importer) call(ctx context.Context, method, path string, body object, out any, match ...string) error {
	r := kit.Request{Method: method, Path: path}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("write request: %w", err)
		}
		r.Body = raw
	}
	if method == http.MethodPost {
		r.IdempotencyKey = rand.Text()
	}
	if len(match) > 0 {
		r.Header = http.Header{"If-Match": match}
	}
	return patiently(ctx, func() error { return i.client.Call(ctx, r, out) })
}

const (
	patience = 30 // tries
	breath   = time.Second
)

// patiently asks again while the server has no time.
func patiently(ctx context.Context, ask func() error) error {
	for try := 1; ; try++ {
		err := ask()
		p, is := errors.AsType[*kit.Problem](err)
		busy := is && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable)
		if !busy || try == patience {
			return err
		}
		pause.For(ctx, breath)
		if ctx.Err() != nil {
			return err
		}
	}
}
