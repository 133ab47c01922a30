package door

// Bounds of what Room gives, whatever the limit is.
const (
	mostConnections  = 16_384
	leastConnections = 8
	leastPerAddress  = 4
)

// Room returns how many connections the API may have when the process may have
// so many descriptors: half of what is left when a share is kept back for the
// store and its files. The other half is for deliveries.
func Room(descriptors uint64) int {
	kept := min(64, descriptors/4)
	return max(leastConnections, int(min((descriptors-kept)/2, mostConnections)))
}

// Share returns how many of all connections one address may have.
func Share(all int) int { return min(all, max(all/4, leastPerAddress)) }
