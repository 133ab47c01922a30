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
)

// alertsCommand holds all about alerts. Without --tenant they are about whatever
// the key may see: who looks for alarms should not miss one.
func (s *session) alertsCommand() *cobra.Command {
	cmd := group("alerts", "See what fires, acknowledge it, and say who is told",
		s.alertsList(),
		s.alertsShow(),
		s.alertsAck(),
		s.alertsTest(),
		s.alertsRules(),
		group("channels", "Say over which ways who is told",
			listCommand(s, "List channels", "T/alert-channels", "ID KIND NAME TENANT TO FILTERS STATE", channelRow),
			s.channelsCreate(),
			s.showCommand("get CHANNEL", "Show a channel", "T/alert-channels/ID"),
			s.channelsUpdate(),
			s.actionCommand("delete CHANNEL...", "DELETE T/alert-channels/ID", "Delete channels", "deleted"),
		),
	)
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		if !cmd.Flag("tenant").Changed {
			s.tenant = "-"
		}
	}
	return cmd
}

func (s *session) alertsList() *cobra.Command {
	cmd := listCommand(s, "List alerts, those that fire unless --status says otherwise", "T/alerts", "ID SEVERITY STATUS SINCE RULE ABOUT ACKED SUMMARY", alertRow,
		filter{name: "status", help: "firing or resolved, or both with a comma"},
		filter{name: "level", help: "endpoint, tenant or system"},
		filter{name: "severity", help: "page, warning or info"},
		filter{name: "rule", help: "name of a rule"},
		filter{name: "endpoint", help: "endpoint it is about: its id, or with --tenant its uid"})
	if status, ok := cmd.Flag("status").Value.(pflag.SliceValue); ok {
		_ = status.Replace([]string{"firing"}) // a default, which takes any text
		cmd.Flag("status").DefValue = "[firing]"
	}
	return cmd
}

func alertRow(a view.Alert) []string {
	acked := "–"
	if a.AckedBy != nil {
		acked = clock(a.AckedAt)
	}
	return []string{a.ID, a.Severity, a.Status, clock(a.Since), a.Rule, about(a.Subject), acked, a.Summary}
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
		Use: "show ALERT", Short: "Show an alert and who was told", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fetch(cmd.Context(), s, request{method: http.MethodGet, path: at("v1/alerts/ID", args[0])}, s.printAlert)
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
		{"value", decimal(a.Value) + ", threshold " + decimal(a.Threshold)},
		{"since", clock(a.Since) + ", last true " + clock(a.LastAt) + ", " + plural(a.Count, "time", "times")},
	}
	if a.Subject.Endpoint != nil && a.Subject.Tenant != nil {
		facts = append(facts, []string{"tenant", *a.Subject.Tenant})
	}
	if !time.Time(a.ResolvedAt).IsZero() {
		facts = append(facts, []string{"resolved", clock(a.ResolvedAt)})
	}
	if a.Flapping {
		facts = append(facts, []string{"flapping", "only its end will be told"})
	}
	if a.AckedBy != nil {
		text := clock(a.AckedAt) + " by " + *a.AckedBy
		if !time.Time(a.SnoozedUntil).IsZero() {
			text += ", snoozed until " + clock(a.SnoozedUntil)
		}
		if note := orZero(a.AckNote); note != "" {
			text += ": " + note
		}
		facts = append(facts, []string{"acked", text})
	}
	if err := s.printRows(facts); err != nil || len(a.Notifications) == 0 {
		return err
	}
	rows := [][]string{strings.Fields("NOTICE CHANNEL AT RESULT TRIES ERROR")}
	for _, n := range a.Notifications {
		rows = append(rows, []string{n.Kind, n.Channel, clock(n.At), n.Result, strconv.Itoa(n.Tries), dash(orZero(n.Error))})
	}
	if err := s.printf("\n"); err != nil {
		return err
	}
	return s.printRows(rows)
}

func (s *session) alertsAck() *cobra.Command {
	var in struct {
		Note   string `json:"note,omitempty"`
		Snooze string `json:"snooze,omitempty"`
	}
	cmd := &cobra.Command{
		Use: "ack ALERT...", Short: "Acknowledge alerts: no repeats, but their end is told", Args: wantArgs(1, -1),
		Example: `  breakwater alerts ack alr_… --note "on it"
  breakwater alerts ack alr_… --snooze 1h`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return s.each(ids, func(id string) error {
				var raw json.RawMessage
				if err := c.call(cmd.Context(), request{method: http.MethodPost, path: at("v1/alerts/ID/ack", id), body: in}, &raw); err != nil {
					return err
				}
				return s.print(raw, "", "%s acknowledged\n", id)
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
		Use: "test CHANNEL", Short: "Send a test over a channel and say what came of it", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flag("timeout").Changed {
				s.timeout = testTimeout
			}
			c, err := s.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.call(cmd.Context(), request{method: http.MethodPost, path: at("T/alert-channels/ID/test", args[0])}, &raw); err != nil {
				return err
			}
			got, err := understand[view.ChannelTest](raw)
			if err != nil {
				return err
			}
			if err := s.print(raw, "", "%s: %s\n", got.Result, got.Detail); err != nil || got.Result == "ok" {
				return err
			}
			return fmt.Errorf("the channel did not take the test: %w", errCheckFailed)
		},
	}
}

func (s *session) alertsRules() *cobra.Command {
	return &cobra.Command{
		Use: "rules", Short: "Show rules and the thresholds in force", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printList(cmd.Context(), s, "v1/alert-rules", url.Values{}, unpaged, "RULE ON LEVELS THRESHOLDS", ruleRow)
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
	return []string{r.Name, on, strings.Join(levels, " "), dash(strings.Join(thresholds, " "))}
}
