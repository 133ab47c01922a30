package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

func (s *session) eventTypesCommand() *cobra.Command {
	return kit.Group("event-types", "Describe event types: what they mean, and the schema that payloads have to fit",
		s.eventTypesCreate(), s.eventTypesUpdate(),
		kit.ListCommand(s.Session, "List event types", "T/event-types", "TYPE SCHEMA CHANGED DESCRIPTION", func(t view.EventType) []string {
			return []string{t.Type, hasSchema(t), kit.Clock(t.UpdatedAt), kit.Dash(t.Description)}
		}),
		s.ShowCommand("get TYPE", "Show an event type", "T/event-types/ID"),
		s.ActionCommand("delete TYPE...", "DELETE T/event-types/ID", "Forget event types; their payloads are not checked any more", "deleted"),
	)
}

func hasSchema(t view.EventType) string {
	if len(t.Schema) == 0 || string(t.Schema) == "null" {
		return "no"
	}
	return "yes"
}

// typeFlags are the flags that create and update share.
type typeFlags struct{ description, schema, example string }

func (f *typeFlags) add(cmd *cobra.Command, none string) {
	flags := cmd.Flags()
	flags.StringVar(&f.description, "description", "", "what it means")
	flags.StringVar(&f.schema, "schema", "", "file with the JSON Schema of payloads; - for standard input"+none)
	flags.StringVar(&f.example, "example", "", "file with a payload as an example"+none)
}

// body holds what was given by flags. An empty name of a file is null.
func (f *typeFlags) body(cmd *cobra.Command) (map[string]any, error) {
	body := map[string]any{}
	if cmd.Flags().Changed("description") {
		body["description"] = f.description
	}
	for flag, file := range map[string]string{"schema": f.schema, "example": f.example} {
		if !cmd.Flags().Changed(flag) {
			continue
		}
		if file == "" {
			body[flag] = nil
			continue
		}
		doc, err := readDocument(cmd.InOrStdin(), file)
		if err != nil {
			return nil, kit.Usagef("--%s: %w", flag, err)
		}
		body[flag] = doc
	}
	return body, nil
}

// maxDocument is more than the server takes, and no more than fits into memory.
const maxDocument = 1 << 20

func readDocument(stdin io.Reader, file string) (json.RawMessage, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, maxDocument))
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("%s is not valid JSON", file)
	}
	return data, nil
}

func (s *session) eventTypesCreate() *cobra.Command {
	var f typeFlags
	cmd := &cobra.Command{
		Use: "create TYPE", Short: "Describe an event type", Args: kit.WantArgs(1, 1),
		Example: "  breakwater event-types create order.paid --schema order-paid.json --description 'an order was paid'",
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := f.body(cmd)
			if err != nil {
				return err
			}
			body["type"] = args[0]
			return kit.Fetch(cmd.Context(), s.Session, kit.Request{Method: http.MethodPost, Path: "T/event-types", Body: body}, func(t view.EventType) error {
				return s.Print(t, t.Type+"\n", "%s described, schema %s\n", t.Type, hasSchema(t))
			})
		},
	}
	f.add(cmd, "")
	return cmd
}

func (s *session) eventTypesUpdate() *cobra.Command {
	var f typeFlags
	cmd := &cobra.Command{
		Use: "update TYPE", Short: "Change an event type; what no flag names stays", Args: kit.WantArgs(1, 1),
		Example: "  breakwater event-types update order.paid --schema order-paid.json\n  breakwater event-types update order.paid --schema=",
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := f.body(cmd)
			if err != nil {
				return err
			}
			if len(body) == 0 {
				return kit.Usagef("name what to change: --description, --schema or --example")
			}
			r := kit.Request{Method: http.MethodPatch, Path: kit.At("T/event-types/ID", args[0]), Body: body}
			return kit.Fetch(cmd.Context(), s.Session, r, func(t view.EventType) error {
				return s.Print(t, t.Type+"\n", "%s changed, version %d, schema %s\n", t.Type, t.Version, hasSchema(t))
			})
		},
	}
	f.add(cmd, "; '' removes it")
	return cmd
}
