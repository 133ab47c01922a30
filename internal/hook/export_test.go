package hook

// EndReasons lists every reason of dead and cancelled deliveries.
func EndReasons() []EndReason { return endReasons.all() }
