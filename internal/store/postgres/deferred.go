package postgres

import (
	"sync"
	"sync/atomic"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
)

// node is a node of this process, with what the moving of its floor must know of
// its commits.
type node struct {
	*deferred.Node

	commits   sync.RWMutex // shared by the node's commits
	uncertain atomic.Bool  // what became of the last one
}

// nodeOf returns the node with the id.
func (d *DB) nodeOf(id hook.ID) *node {
	d.nodesMu.Lock()
	defer d.nodesMu.Unlock()
	n, ok := d.nodes[id]
	if !ok {
		n = &node{Node: deferred.NewNode(id)}
		d.nodes[id] = n
	}
	return n
}

// everyNode returns the nodes of this process: there is one, but in tests.
func (d *DB) everyNode() []*node {
	d.nodesMu.Lock()
	defer d.nodesMu.Unlock()
	all := make([]*node, 0, len(d.nodes))
	for _, n := range d.nodes {
		all = append(all, n)
	}
	return all
}

// deferring returns what this process knows of deferred deliveries.
func (d *DB) deferring() deferred.Nodes {
	var all deferred.Nodes
	for _, n := range d.everyNode() {
		all = append(all, n.Node)
	}
	return all
}
