package browser_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/test/program"
	"github.com/breakwaterhq/breakwater/test/seed"
)

// theStory is the server that tests share which only look. It ends with the process.
var theStory struct {
	once  sync.Once
	dir   string
	stage *seed.Stage
	log   program.Log
	err   error
}

// story returns a server in the middle of the story.
func story(t *testing.T) *seed.Stage {
	t.Helper()
	needBrowser(t)
	s := &theStory
	s.once.Do(func() {
		if s.dir, s.err = os.MkdirTemp("", "breakwater-story"); s.err == nil { //nolint:usetesting // it outlives the test that comes first
			s.stage, s.err = seed.Raise(context.Background(), binary, s.dir, program.Address(), &s.log)
		}
	})
	if s.err != nil {
		t.Fatalf("%v\n%s", s.err, s.log.String())
	}
	return s.stage
}

// endStory ends what story has started.
func endStory() {
	if theStory.stage != nil {
		theStory.stage.Strike()
	}
	if theStory.dir != "" {
		_ = os.RemoveAll(theStory.dir)
	}
}

// tabs are what most checks of all pages need: one that is logged in, one that is not.
type tabs struct{ guest, operator *tab }

func openBoth(t *testing.T, s *seed.Stage, on screen) tabs {
	t.Helper()
	b := tabs{guest: open(t, s.URL, on), operator: open(t, s.URL, on)}
	b.operator.login(s.Key)
	return b
}

func (b tabs) of(v *view) *tab {
	if v.guest {
		return b.guest
	}
	return b.operator
}

func TestPagesForEverybody(t *testing.T) {
	s := story(t)
	for _, on := range screens {
		t.Run(on.name, func(t *testing.T) {
			both := openBoth(t, s, on)
			for _, v := range views {
				t.Run(v.name, func(t *testing.T) {
					b := both.of(&v).in(t)
					path := v.at(s.Places)
					b.visitAs(path, v.want())
					if !strings.Contains(b.text("body"), v.see) {
						t.Errorf("%s does not say %q; it says %q", path, v.see, b.text("body"))
					}
					b.checkAccess(path)
					if on.phone {
						b.checkWidth(path, 390, 320)
						b.show(on)
					}
				})
			}
		})
	}
}

func TestFirstLoadIsSmall(t *testing.T) {
	s := story(t)
	both := openBoth(t, s, desk)
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) { both.of(&v).in(t).checkFirstLoad(v.at(s.Places), v.want()) })
	}
}

func TestPagesWithoutScript(t *testing.T) {
	s := story(t)
	both := openBoth(t, s, desk)
	both.guest.withoutScript()
	both.operator.withoutScript()
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			b := both.of(&v).in(t)
			path := v.at(s.Places)
			b.visitAs(path, v.want())
			if !strings.Contains(b.text("body"), v.see) {
				t.Errorf("%s does not say %q without JavaScript", path, v.see)
			}
		})
	}
}
