package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// alertsCommand holds all about alerts. Without --tenant they are about whatever
// the key may see: who looks for alarms should not miss one.
func (s *session) alertsCommand() *cobra.Command {
	cmd := kit.Group("alerts", "See what fires, acknowledge it, and say who is told",
		s.alertsList(),
		s.alertsShow(),
		s.alertsAck(),
		s.alertsTest(),
		s.alertsRules(),
		kit.Group("channels", "Say over which ways who is told",
			kit.ListCommand(s.Session, "List channels", "T/alert-channels", "ID KIND NAME TENANT TO FILTERS STATE", channelRow),
			s.channelsCreate(),
			s.ShowCommand("get CHANNEL", "Show a channel", "T/alert-channels/ID"),
			s.channelsUpdate(),
			s.ActionCommand("delete CHANNEL...", "DELETE T/alert-channels/ID", "Delete channels", "deleted"),
		),
	)
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flag("tenant").Changed {
			s.Tenant = "-"
		}
	}
	return cmd
}

func (s *session) alertsList() *cobra.Command {
	cmd := kit.ListCommand(s.Session, "List alerts, those that fire unless --status says otherwise", "T/alerts", "ID SEVERITY STATUS SINCE RULE ABOUT ACKED SUMMARY", alertRow,
		kit.Filter{Name: "status", Help: "firing or resolved, or both with a comma"},
		kit.Filter{Name: "level", Help: "endpoint, tenant or system"},
		kit.Filter{Name: "severity", Help: "page, warning or info"},
		kit.Filter{Name: "rule", Help: "name of a rule"},
		kit.Filter{Name: "endpoint", Help: "endpoint it is about: its id, or with --tenant its uid"})
	if status, ok := cmd.Flag("status").Value.(pflag.SliceValue); ok {
		_ = status.Replace([]string{"firing"}) // a default, which takes any text
		cmd.Flag("status").DefValue = "[firing]"
	}
	return cmd
}

func alertRow(a view.Alert) []string {
	acked := "–"
	if a.AckedBy != nil {
		acked = kit.Clock(a.AckedAt)
	}
	return []string{a.ID, a.Severity, a.Status, kit.Clock(a.Since), a.Rule, about(a.Subject), acked, a.Summary}
}

// about names what an alert is about, the closest first.
func about(s view.AlertSubject) string {
	for _, id := range []*string{s.Endpoint, s.Replay, s.Tenant, s.Node} {
		if id != nil {
			return *id
		}
	}
	return "system"
}

func (s *session) alertsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ALERT", Short: "Show an alert and who was told", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return kit.Fetch(cmd.Context(), s.Session, kit.Request{Method: http.MethodGet, Path: kit.At("v1/alerts/ID", args[0])}, s.printAlert)
		},
	}
}

func (s *session) printAlert(a view.Alert) error {
	facts := [][]string{
		{"alert", a.ID},
		{"rule", a.Rule + ", docs/alerts.md#" + a.Rule},
		{"status", a.Status + ", " + a.Severity},
		{"about", about(a.Subject)},
		{"summary", a.Summary},
		{"value", kit.Decimal(a.Value) + ", threshold " + kit.Decimal(a.Threshold)},
		{"since", kit.Clock(a.Since) + ", last true " + kit.Clock(a.LastAt) + ", " + kit.Plural(a.Count, "time", "times")},
	}
	if a.Subject.Endpoint != nil && a.Subject.Tenant != nil {
		facts = append(facts, []string{"tenant", *a.Subject.Tenant})
	}
	if !time.Time(a.ResolvedAt).IsZero() {
		facts = append(facts, []string{"resolved", kit.Clock(a.ResolvedAt)})
	}
	if a.Flapping {
		facts = append(facts, []string{"flapping", "only its end will be told"})
	}
	if a.AckedBy != nil {
		text := kit.Clock(a.AckedAt) + " by " + *a.AckedBy
		if !time.Time(a.SnoozedUntil).IsZero() {
			text += ", snoozed until " + kit.Clock(a.SnoozedUntil)
		}
		if note := kit.OrZero(a.AckNote); note != "" {
			text += ": " + note
		}
		facts = append(facts, []string{"acked", text})
	}
	if err := s.PrintRows(facts); err != nil || len(a.Notifications) == 0 {
		return err
	}
	rows := [][]string{strings.Fields("NOTICE CHANNEL AT RESULT TRIES ERROR")}
	for _, n := range a.Notifications {
		rows = append(rows, []string{n.Kind, n.Channel, kit.Clock(n.At), n.Result, strconv.Itoa(n.Tries), kit.Dash(kit.OrZero(n.Error))})
	}
	if err := s.Printf("\n"); err != nil {
		return err
	}
	return s.PrintRows(rows)
}

func (s *session) alertsAck() *cobra.Command {
	var in struct {
		Note   string `json:"note,omitempty"`
		Snooze string `json:"snooze,omitempty"`
	}
	cmd := &cobra.Command{
		Use: "ack ALERT...", Short: "Acknowledge alerts: no repeats, but their end is told", Args: kit.WantArgs(1, -1),
		Example: `  breakwater alerts ack alr_… --note "on it"
  breakwater alerts ack alr_… --snooze 1h`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			return s.Each(ids, func(id string) error {
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), kit.Request{Method: http.MethodPost, Path: kit.At("v1/alerts/ID/ack", id), Body: in}, &raw); err != nil {
					return err
				}
				return s.Print(raw, "", "%s acknowledged\n", id)
			})
		},
	}
	cmd.Flags().StringVar(&in.Note, "note", "", "for others who look")
	cmd.Flags().StringVar(&in.Snooze, "snooze", "", "repeat it again after this long, 1m to 7d (default not before it is resolved)")
	return cmd
}

// testTimeout is longer than the server tries.
const testTimeout = 45 * time.Second

func (s *session) alertsTest() *cobra.Command {
	return &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test over a channel and say what came of it", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flag("timeout").Changed {
				s.Timeout = testTimeout
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Call(cmd.Context(), kit.Request{Method: http.MethodPost, Path: kit.At("T/alert-channels/ID/test", args[0])}, &raw); err != nil {
				return err
			}
			got, err := kit.Understand[view.ChannelTest](raw)
			if err != nil {
				return err
			}
			if err := s.Print(raw, "", "%s: %s\n", got.Result, got.Detail); err != nil || got.Result == "ok" {
				return err
			}
			return fmt.Errorf("the channel did not take the test: %w", kit.ErrCheckFailed)
		},
	}
}

func (s *session) alertsRules() *cobra.Command {
	return &cobra.Command{
		Use: "rules", Short: "Show rules and the thresholds in force", Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return kit.PrintList(cmd.Context(), s.Session, "v1/alert-rules", url.Values{}, kit.Unpaged, "RULE ON LEVELS THRESHOLDS", ruleRow)
		},
	}
}

func ruleRow(r view.AlertRule) []string {
	on := "yes"
	if !r.Enabled {
		on = "no"
	}
	var levels, thresholds []string
	for _, l := range r.Levels {
		levels = append(levels, l.Level+":"+strings.Join(l.Severities, "→"))
	}
	for _, t := range r.Thresholds {
		thresholds = append(thresholds, t.Name+"="+t.Value)
	}
	return []string{r.Name, on, strings.Join(levels, " "), kit.Dash(strings.Join(thresholds, " "))}
}
