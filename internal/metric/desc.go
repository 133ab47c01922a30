package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is what a reader may do with the values of a metric.
type Type uint8

// The types of metrics.
const (
	Counter   Type = 1 + iota // only grows, but for a restart: take its rate
	Gauge                     // goes up and down
	Histogram                 // counts by how large they are
)

func (t Type) String() string {
	return [...]string{"", "counter", "gauge", "histogram"}[t]
}

// Over is how the values of several nodes are put together.
type Over uint8

// The ways of putting nodes together.
const (
	Sum   Over = 1 + iota // each node has its part
	Max                   // the worst node counts
	Each                  // they mean something for one node only
	Fleet                 // of all nodes, told by one of them: adding up does no harm
)

func (o Over) String() string {
	return [...]string{"", "add nodes up", "take the greatest", "look at each node", "of the whole fleet; one node reports it"}[o]
}

// Section is where a metric stands in the documentation and on the dashboard.
type Section uint8

// The sections, in their order.
const (
	Overview Section = 1 + iota
	Destinations
	Queue
	Store
	Process
)

// Sections lists all of them.
func Sections() []Section { return []Section{Overview, Destinations, Queue, Store, Process} }

func (s Section) String() string {
	return [...]string{"", "Overview", "Destinations", "Queue", "Store", "Process"}[s]
}

// Unit is what the values are counted in.
type Unit string

// The units. Plain numbers have none.
const (
	Plain   Unit = ""
	Seconds Unit = "seconds"
	Bytes   Unit = "bytes"
)

// Label is a label with all the values that it may have. None: as many as a setting
// allows.
type Label struct {
	Name   string
	Values []string
}

// Desc describes a metric. Names, types and labels are API.
type Desc struct {
	Name    string
	Type    Type
	Unit    Unit
	Over    Over
	Section Section
	Help    string
	Labels  []Label
	Only    string    // when it is there; empty: always
	Buckets []float64 // upper bounds of a histogram, in its unit
	// By are the labels that a chart tells apart; nil: all.
	By []string

	collect func(s *sample, emit emit)
}

// emit takes a value with the values of its labels, in the order of the table.
type emit func(value float64, labels ...string)

// LabelNames returns the names of the labels.
func (d *Desc) LabelNames() []string {
	var names []string
	for _, l := range d.Labels {
		names = append(names, l.Name)
	}
	return names
}

func (d *Desc) prometheus() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.LabelNames(), nil)
}

// Table lists every metric of this program, in the order of the documentation.
// Those of the Go runtime and of the process come on top.
func Table() []*Desc { return slices.Clone(table) }

// Lookup returns a metric by its name, nil when there is none.
func Lookup(name string) *Desc {
	for _, d := range table {
		if d.Name == name {
			return d
		}
	}
	return nil
}
