package egress

// idleShare is the part of the process's descriptors that idle connections may
// have. The rest is for requests, the store and whoever asks the API.
const idleShare = 4

// idleBound returns how many idle connections there may be.
func idleBound() int { return boundIdle(descriptorLimit()) }

// boundIdle is idleBound for a limit; 0: it is not known.
func boundIdle(limit uint64) int {
	if limit == 0 {
		return maxIdle
	}
	return int(min(max(limit/idleShare, 1), maxIdle))
}
