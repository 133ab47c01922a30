package lease

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// wantedOwner names the node that should own a shard: the live node with the
// highest hash of (node, shard). When a node comes or goes only its own share
// moves.
func wantedOwner(members []hook.Node, shard int) hook.ID {
	var best hook.ID
	var bestScore uint64
	for _, m := range members {
		if m.Draining {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write(append(binary.LittleEndian.AppendUint64(nil, uint64(m.ID)), byte(shard)))
		// FNV alone leaves close inputs close; one more mix spreads them.
		score := h.Sum64()
		score = (score ^ (score >> 33)) * 0xff51afd7ed558ccd
		score ^= score >> 33
		if best == 0 || score > bestScore {
			best, bestScore = m.ID, score
		}
	}
	return best
}
