package hook

// EndReasons lists every reason of dead and cancelled deliveries.
func EndReasons() []EndReason { return endReasons.all() }

// OperationalTypes lists every type of operational events.
func OperationalTypes() []OperationalType { return operationalTypes }
