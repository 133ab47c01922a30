package deferred

import "github.com/breakwaterhq/breakwater/internal/hook"

// HandsOff reports whether the node counts the delivery as handed off, Sends
// whether as one of its own lanes.
func (n *Node) HandsOff(id hook.ID) bool { _, ok := n.handedOff.byID[id]; return ok }
func (n *Node) Sends(id hook.ID) bool    { return n.sends(id) }
