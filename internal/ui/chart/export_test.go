package chart

// What the tests look at directly.
var (
	TextWidth = textWidth
	Nudge     = nudge
)

// Widths are the narrowest a plot gets beside another one, and on a phone.
func Widths() (narrow, phone float64) { return half.narrow, half.phone }

// PastWidth is the narrowest the first part of a timeline gets.
func PastWidth() float64 { return pastRoom.phone }

// Ticks are the values and labels of an axis and where they stand, 0 to 1.
func Ticks(a Axis, low, high, height float64) (values, places []float64, labels []string) {
	s := newScale(a, low, high, height)
	for _, v := range s.ticks {
		places = append(places, s.pos(v))
		labels = append(labels, s.label(v))
	}
	return s.ticks, places, labels
}

// TimeTicks are the places and labels of a window.
func TimeTicks(w Window, most int) (places []float64, labels []string) {
	for _, t := range w.ticks(most) {
		places = append(places, t.at)
		labels = append(labels, t.label)
	}
	return places, labels
}

// NumberLabels are the labels of attempts, where they belong and where they stand.
func NumberLabels(w Window, attempts []Attempt, width float64) (labels []string, widths, anchors, places []float64) {
	clusters, shifts := clusters(w, attempts, width)
	for i, c := range clusters {
		labels = append(labels, c.number())
		widths = append(widths, c.width())
		anchors = append(anchors, c.at*width)
		places = append(places, c.at*width+shifts[i])
	}
	return labels, widths, anchors, places
}
