package store

// Connections are what a store has open to its database.
type Connections struct {
	InUse, Idle, Max int
	Waits            int64 // how often somebody had to wait for one
}

// Plus returns the sum of two.
func (c Connections) Plus(d Connections) Connections {
	return Connections{InUse: c.InUse + d.InUse, Idle: c.Idle + d.Idle, Max: c.Max + d.Max, Waits: c.Waits + d.Waits}
}

// Connected is a store that tells of its connections.
type Connected interface {
	Connections() Connections
}
