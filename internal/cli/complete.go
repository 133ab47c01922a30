package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// Whoever presses Tab waits for no server longer than this, and reads no more names.
const (
	completeWithin = time.Second
	completeMost   = 100
)

// source is where the server lists what an argument or a flag may name.
type source struct {
	path     string
	names    []string // members, the first that is there
	describe []string
}

// sources are known by the word that the usage of a command has, or by their flag.
var sources = map[string]source{
	"ENDPOINT": {"T/endpoints", []string{"uid", "id"}, []string{"url"}},
	"TENANT":   {"v1/tenants", []string{"uid", "id"}, []string{"name"}},
	"DELIVERY": {"T/deliveries", []string{"id"}, []string{"type", "status"}},
	"ID":       {"T/deliveries", []string{"id"}, []string{"type", "status"}},
	"REPLAY":   {"T/replays", []string{"id"}, []string{"status"}},
	"CHANNEL":  {"v1/alert-channels", []string{"id"}, []string{"name"}},
	"ALERT":    {"v1/alerts", []string{"id"}, []string{"summary"}},
	"KEY":      {"v1/keys", []string{"id"}, []string{"name", "scope"}},
	"TYPE":     {"T/event-types", []string{"type"}, []string{"description"}},
	"POLICY":   {"v1/policies", []string{"name"}, []string{"description"}},

	"--endpoint": {"T/endpoints", []string{"uid", "id"}, []string{"url"}},
	"--tenant":   {"v1/tenants", []string{"uid", "id"}, []string{"name"}},
	"--type":     {"T/event-types", []string{"type"}, []string{"description"}},
	"--types":    {"T/event-types", []string{"type"}, []string{"description"}},
	"--replay":   {"T/replays", []string{"id"}, []string{"status"}},
	"--preset":   {"v1/presets", []string{"name"}, []string{"description"}},
}

// words are what flags may hold whatever the server has.
var words = map[string][]string{
	"status": {"pending", "delivered", "dead", "cancelled", "held", "retrying"},
	"kind":   {"first", "retry", "probe", "replay", "manual"},
	"scope":  {"admin", "admin:read", "tenant:write", "tenant:read", "tenant:send"},
	"body":   {"payload", "envelope", "cloudevents", "cloudevents_binary", "slack", "discord", "teams"},
}

// complete makes shells complete names that the server knows.
func (s *session) complete(cmd *cobra.Command) {
	word := argumentOf(cmd)
	if src, ok := sources[word]; ok && cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = s.fromServer(src)
	}
	flags := func(f *pflag.Flag) {
		if src, ok := sources["--"+f.Name]; ok {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, s.fromServer(src)) // fails for a flag that has one
		} else if w := words[f.Name]; w != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(w, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	cmd.Flags().VisitAll(flags)
	cmd.PersistentFlags().VisitAll(flags)
	for _, child := range cmd.Commands() {
		s.complete(child)
	}
}

// argumentOf is what the usage of a command calls its argument: ENDPOINT, NAME.
func argumentOf(cmd *cobra.Command) string {
	_, rest, _ := strings.Cut(cmd.Use, " ")
	word, _, _ := strings.Cut(rest, " ")
	word = strings.Trim(word, "[].")
	if word == "NAME" && cmd.HasParent() && cmd.Parent().Name() == "policies" {
		return "POLICY"
	}
	return word
}

// fromServer asks the server. One that does not answer completes nothing.
func (s *session) fromServer(src source) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		c, err := s.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		page, err := c.List(ctx, src.path, url.Values{}, completeMost)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		given := map[string]bool{}
		for _, a := range args {
			given[a] = true
		}
		var out []cobra.Completion
		for _, raw := range page.Data {
			if name, about := src.read(raw); name != "" && !given[name] {
				out = append(out, cobra.CompletionWithDesc(name, about))
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// read returns the name of an object and what tells it from others.
func (src *source) read(raw json.RawMessage) (name, about string) {
	o, err := kit.Understand[map[string]any](raw)
	if err != nil {
		return "", ""
	}
	member := func(m string) string {
		text, _ := o[m].(string)
		return text
	}
	for _, m := range src.names {
		name = cmp.Or(name, member(m))
	}
	var said []string
	for _, m := range src.describe {
		if text := member(m); text != "" {
			said = append(said, text)
		}
	}
	return name, strings.Join(said, " ")
}
