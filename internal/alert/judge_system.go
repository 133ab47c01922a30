package alert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Rules about the service itself.

// calmMinutes is for how many minutes all queues together must not have grown
// before their alert may end.
const calmMinutes = 5

func systemQueueGrowing(v values, r *Reading) []verdict {
	depths, minutes := r.System.Depths, int(v.of("minutes"))
	if len(depths) < 2 {
		return nil
	}
	last := len(depths) - 1
	inRow, lately := 0, false
	for i := last; i > 0 && depths[i] > depths[i-1]; i-- {
		inRow++
	}
	for i := last; i > max(last-calmMinutes, 0); i-- {
		lately = lately || depths[i] > depths[i-1]
	}
	strong := inRow >= minutes && float64(depths[last]) > v.of("depth")
	if !strong && !lately {
		return nil
	}
	return []verdict{{
		value: float64(depths[last]), threshold: v.of("depth"), weak: !strong,
		summary: fmt.Sprintf("%s wait for another attempt or are held, and there were more every minute for %s. Look at which endpoints fail, and whether they share a cause.",
			of(depths[last], "delivery", "deliveries"), of(inRow, "minute", "minutes")),
	}}
}

func breakersMany(v values, r *Reading) []verdict {
	opened, active := r.System.LanesOpened, max(r.System.LanesActive, r.System.LanesOpened)
	if opened == 0 || float64(opened) < v.of("lanes") || 100*float64(opened) < v.of("percent")*float64(active) {
		return nil
	}
	p := 100 * float64(opened) / float64(active)
	return found(float64(opened), v.of("lanes"), fmt.Sprintf("%s opened within 5 minutes, of %s with traffic (%s). The cause is hardly theirs: look at our way out, DNS, or a host that they share.",
		of(opened, "breaker", "breakers"), number(active), share(p)))
}

func localErrors(v values, r *Reading) []verdict {
	n := r.System.LocalErrors
	if n == 0 || float64(n) < v.of("errors") {
		return nil
	}
	return found(float64(n), v.of("errors"), fmt.Sprintf("%s failed on our side in the last minute (limit %s). They are tried again; look at the log for local_error: memory, open files or keys.",
		of(n, "attempt", "attempts"), number(int64(v.of("errors")))))
}

func storeSlow(v values, r *Reading) []verdict {
	p99, limit := r.System.CommitP99, v.duration("p99")
	if p99 <= limit {
		return nil
	}
	return found(p99.Seconds(), limit.Seconds(), fmt.Sprintf("One commit in a hundred takes %s or longer (limit %s), and everything waits for commits. Look at the disk or the database: load, locks, a slow fsync.",
		lasted(p99), lasted(limit)))
}

func diskLow(v values, r *Reading) []verdict {
	free, reserve := r.System.DiskFree, r.System.DiskReserve
	limit := v.of("factor") * float64(reserve)
	if reserve == 0 || float64(free) >= limit {
		return nil
	}
	return found(float64(free), limit, fmt.Sprintf("%s are free on the store's disk; below %s new events are refused with 507. Make room, or shorten retention.data.",
		roughSize(free), quantity.FormatSize(reserve)))
}

// roughSize writes a size as people say it.
func roughSize(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			return decimal(float64(n)/float64(unit.size), 1) + " " + unit.name
		}
	}
	return number(n) + " B"
}

func shardUnowned(v values, r *Reading) []verdict {
	limit := v.duration("age")
	var oldest time.Duration
	var names []string
	for _, s := range r.System.Unowned {
		if s.Age > limit {
			oldest = max(oldest, s.Age)
			names = append(names, number(s.Shard))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return found(oldest.Seconds(), limit.Seconds(), fmt.Sprintf("%s without an owner for up to %s (limit %s): %s. Nobody delivers to their endpoints; look at which nodes live and can renew their leases.",
		of(len(names), "shard is", "shards are"), lasted(oldest), lasted(limit), clip(names, 10)))
}

func settleStalled(v values, r *Reading) []verdict {
	age, limit := r.System.OldestResult, v.duration("age")
	if age <= limit {
		return nil
	}
	return found(age.Seconds(), limit.Seconds(), fmt.Sprintf("The oldest result waits for %s to be stored (limit %s). What is not stored is sent again after a crash; look at the store and its writer.",
		lasted(age), lasted(limit)))
}

func clockSkew(v values, r *Reading) []verdict {
	limit := v.duration("offset")
	var out []verdict
	for _, n := range r.System.Nodes {
		off := n.Offset.Abs()
		if off <= limit {
			continue
		}
		way := "ahead"
		if n.Offset < 0 {
			way = "behind"
		}
		out = append(out, verdict{
			value: off.Seconds(), threshold: limit.Seconds(), subject: &hook.AlertSubject{Node: n.Node},
			summary: fmt.Sprintf("The clock of %s is %s %s of the database's (limit %s). Look at its time synchronisation.",
				cmp.Or(n.Name, hook.NodePrefix.Format(n.Node)), lasted(off), way, lasted(limit)),
		})
	}
	return out
}

// channelFailing tells of each of the operator's channels, also when others fail
// already, perhaps for weeks and not theirs. Those of tenants come after them.
func channelFailing(_ values, r *Reading) []verdict {
	failed := r.System.Channels
	if len(failed) == 0 {
		return nil
	}
	failed = slices.SortedFunc(slices.Values(failed), func(a, b FailedChannel) int {
		return cmp.Or(cmp.Compare(min(a.Tenant, 1), min(b.Tenant, 1)), cmp.Compare(a.ID, b.ID))
	})
	var names []string
	var ids, own []hook.ID
	for _, c := range failed {
		name := cmp.Or(c.Name, hook.ChannelPrefix.Format(c.ID))
		if c.Error != "" {
			name += " (" + c.Error + ")"
		}
		names, ids = append(names, name), append(ids, c.ID)
		if c.Tenant == 0 {
			own = append(own, c.ID)
		}
	}
	return []verdict{{
		value: float64(len(failed)), threshold: 1, except: ids, named: own,
		summary: fmt.Sprintf("Notices over %s failed in all their tries: %s. Those who watch it hear nothing; test it, and mend its address or secret.",
			of(len(failed), "channel", "channels"), clip(names, 10)),
	}}
}
