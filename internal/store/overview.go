package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

// Overview tells how lanes are now and were of late. Its cost grows with how many
// are in trouble, up to a bound, and hardly with what is stored. A tenant of 0 is
// all of them.
type Overview interface {
	CountLanes(ctx context.Context, tenant hook.ID, now time.Time) (LaneCounts, error)
	// CountDead counts dead letters, and no more than limit of them.
	CountDead(ctx context.Context, tenant hook.ID, limit int) (int64, error)
	// WorstLanes returns up to limit lanes that somebody should look at, the worst
	// first (see LaneGlance.Worse). Of many that are open, in a storm, or halted it
	// compares the first MostCompared of each, and those that most waits for.
	WorstLanes(ctx context.Context, tenant hook.ID, limit int) ([]LaneGlance, error)
	// EndpointStats returns StatsReader.Stats of several endpoints, in the order of
	// time for each. Those that nothing was counted of are left out.
	EndpointStats(ctx context.Context, endpoints []hook.ID, from, to time.Time) (map[hook.ID][]stats.Point, error)
}

// MostCompared bounds what WorstLanes looks at of one kind.
const MostCompared = 300

// LaneCounts counts lanes of endpoints that are not deleted.
type LaneCounts struct {
	Endpoints int64
	Open      int64 // those that probe among them
	Probing   int64 // open, and their probe is due or on its way
	Storms    int64
}

// LaneGlance is what is known of a lane without looking into its queue.
type LaneGlance struct {
	EndpointID hook.ID
	TenantID   hook.ID
	URL        string
	State      hook.EndpointState
	Reason     string // of the state, see hook.Endpoint

	Open        bool
	OpenedAt    time.Time
	NextProbeAt time.Time

	Watched bool // what follows was saved by the lane's owner
	Watch   hook.LaneWatch
}

// rank orders lanes by how bad they are, 0 is the worst.
func (g *LaneGlance) rank() int {
	switch halted := g.State != hook.Active; {
	case g.Open && !halted:
		return 0
	case g.Watch.Storm.Active():
		return 1
	case halted && g.Reason != "manual": // nobody may know
		return 2
	case g.Watch.Queue.Growing():
		return 3
	case halted && g.Watch.Queue.Depth == 0: // as somebody wants it
		return 5
	default:
		return 4
	}
}

// Worse compares two lanes: by state, then by what waits.
func (g *LaneGlance) Worse(o *LaneGlance) int {
	for _, d := range []int64{int64(g.rank() - o.rank()), o.Watch.Queue.Depth - g.Watch.Queue.Depth, int64(g.EndpointID - o.EndpointID)} {
		switch {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
	}
	return 0
}
