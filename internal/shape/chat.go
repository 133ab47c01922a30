package shape

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// This file holds the messages of chat services: type, payload, id and time in a fixed
// form. What publishers wrote is shown and never obeyed: nothing in it mentions anybody,
// becomes a link or ends the block that it stands in.

// Bounds of the texts, below those of the services: 3,000 characters in a block of
// Slack, 4,096 in an embed of Discord, 28 KB in a message of Teams.
const (
	slackRoom   = 2900
	discordRoom = 4000
	teamsRoom   = 8000
)

type object = map[string]any

// slack is a message of blocks. Escaped, and marked verbatim, a text holds neither
// links nor mentions.
func slack(e *hook.Event) []byte {
	fence := "```"
	text := fence + fit(preview(e), slackRoom-2*len(fence), escapeSlack) + fence
	return message(object{
		"text":         "Event " + e.Type,
		"unfurl_links": false, "unfurl_media": false,
		"blocks": []object{
			{"type": "header", "text": object{"type": "plain_text", "text": e.Type, "emoji": false}},
			{"type": "section", "text": object{"type": "mrkdwn", "text": text, "verbatim": true}},
			{"type": "context", "elements": []object{{"type": "plain_text", "text": caption(e), "emoji": false}}},
		},
	})
}

// escapeSlack writes the three characters of Slack's control sequences as it asks for,
// and no character that could end the block.
func escapeSlack(r rune) string {
	switch r {
	case '&':
		return "&amp;"
	case '<':
		return "&lt;"
	case '>':
		return "&gt;"
	default:
		return escapeFence(r)
	}
}

// discord is one embed. Nobody is mentioned, whatever the texts say; in a block of code
// nothing else has a meaning.
func discord(e *hook.Event) []byte {
	open, end := "```json\n", "\n```"
	return message(object{
		"allowed_mentions": object{"parse": []string{}},
		"embeds": []object{{
			"title":       strings.ReplaceAll(e.Type, "_", `\_`),
			"description": open + fit(preview(e), discordRoom-len(open)-len(end), escapeFence) + end,
			"timestamp":   e.CreatedAt.UTC().Format(timeLayout),
			"footer":      object{"text": hook.EventPrefix.Format(e.ID)},
		}},
	})
}

// escapeFence keeps a text from ending the block of code that it stands in.
func escapeFence(r rune) string {
	if r == '`' {
		return "'"
	}
	return string(r)
}

// teams is an adaptive card. The texts of a RichTextBlock have no markup.
func teams(e *hook.Event) []byte {
	run := func(text string, more object) object {
		all := object{"type": "TextRun", "text": text}
		maps.Copy(all, more)
		return object{"type": "RichTextBlock", "inlines": []object{all}}
	}
	return message(object{
		"type": "message",
		"attachments": []object{{
			"contentType": "application/vnd.microsoft.card.adaptive",
			"content": object{
				"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
				"body": []object{
					run(e.Type, object{"weight": "bolder", "size": "medium"}),
					run(fit(preview(e), teamsRoom, func(r rune) string { return string(r) }), object{"fontType": "monospace"}),
					run(caption(e), object{"isSubtle": true, "size": "small"}),
				},
			},
		}},
	})
}

func caption(e *hook.Event) string {
	return hook.EventPrefix.Format(e.ID) + " · " + e.CreatedAt.UTC().Format(timeLayout)
}

// message encodes an object, its members in the order of their names.
func message(o object) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil { // texts, and objects of texts
		return []byte("{}")
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
