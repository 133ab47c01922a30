package lease

// WantedOwner names the node that should own a shard.
var WantedOwner = wantedOwner
