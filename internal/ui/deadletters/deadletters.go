// Package deadletters is where people look at what was given up on and send it again:
// dead letters in groups, a replay before it starts with what it would do, replays
// under way and how to steer them, and the end of what nobody wants.
package deadletters

import (
	"embed"
	"io/fs"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

const (
	deadPlace   = "Dead letters"
	replayPlace = "Replays"
	deadPath    = "/ui/dead-letters"
	discardPath = "/ui/dead-letters/discard"
	replaysPath = "/ui/replays"
	newPath     = "/ui/replays/new"
)

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	discard := site.Page{Path: discardPath, Template: "confirm.html", Title: "Discard dead letters", Place: deadPlace, Writes: true, Load: askDiscard}
	begin := site.Page{Path: newPath, Template: "deadletters-new.html", Title: "New replay", Place: replayPlace, Writes: true, Load: loadNew}
	pace := site.Page{Path: replaysPath + "/{id}/pace", Template: "deadletters-pace.html", Title: "Change the pace", Place: replayPlace, Writes: true, Load: loadPace}
	cancel := site.Page{Path: replaysPath + "/{id}/cancel", Template: "confirm.html", Title: "Cancel the replay", Place: replayPlace, Writes: true, Load: askCancel}
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: deadPath, Template: "deadletters.html", Title: deadPlace, Place: deadPlace, Live: []string{"deadletters-head", "deadletters-running"}, Load: loadDead},
			discard,
			{Path: replaysPath, Template: "deadletters-replays.html", Title: replayPlace, Place: replayPlace, Live: []string{"deadletters-replay-rows"}, Load: loadReplays},
			begin,
			{Path: replaysPath + "/{id}", Template: "deadletters-replay.html", Title: "Replay", Place: replayPlace, Live: []string{"deadletters-replay-head", "deadletters-replay-body"}, Load: loadReplay},
			pace, cancel,
		},
		Actions: []site.Action{
			{Path: discardPath, Form: &discard, Do: doDiscard},
			{Path: newPath, Form: &begin, Do: doStart},
			{Path: pace.Path, Form: &pace, Do: doPace},
			{Path: cancel.Path, Form: &cancel, Do: doCancel},
			{Path: replaysPath + "/{id}/pause", Do: doPause},
			{Path: replaysPath + "/{id}/resume", Do: doResume},
		},
	}
}
