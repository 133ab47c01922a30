package chart

import (
	"math"
	"strings"
	"unicode"
)

// room is the narrowest a plot gets: on a phone, on screens where .lo2 is hidden, and on wider ones. Labels that fit
// there fit everywhere, because a plot grows with the screen and text does not.
type room struct{ phone, narrow, wide float64 }

var (
	half = room{250, 330, 388} // one of two side by side
	form = room{250, 370, 480} // beside a form
	full = room{250, 360, 660} // with its legend at the right
)

// textWidth estimates the width of a text of 11 px, generously: the font is whatever the system has.
func textWidth(s string) float64 {
	width := 0.0
	for _, r := range s {
		switch {
		case strings.ContainsRune(" ,.:;'|!iljI·", r):
			width += 3.6
		case r > unicode.MaxLatin1 && r != '–' && r != '…':
			width += 11
		case unicode.IsUpper(r), strings.ContainsRune("mw%@&", r):
			width += 9
		default:
			width += 6.4
		}
	}
	return width
}

// fit tells where a text of that many pixels fits into a share of a plot: everywhere, not on phones (" xl"), or
// on wide screens only (" lo2").
func (r room) fit(pixels, share float64) (class literal, ok bool) {
	switch {
	case pixels <= share*r.phone:
		return "", true
	case pixels <= share*r.narrow:
		return " xl", true
	case pixels <= share*r.wide:
		return " lo2", true
	default:
		return "", false
	}
}

// nudge moves labels of the given widths as little as possible so that they stand inside 0 to width, in order and apart.
// It returns where their middles come to stand. If there is no room for all of them they overlap evenly; callers
// merge labels until that does not happen.
func nudge(anchors, widths []float64, width float64) []float64 {
	n := len(anchors)
	offset := make([]float64, n) // where the middles stand when all labels are pushed together
	for i := 1; i < n; i++ {
		offset[i] = offset[i-1] + (widths[i-1]+widths[i])/2
	}
	type block struct {
		sum   float64
		count int
	}
	var blocks []block // pooled neighbours: a block shares one shift
	mean := func(b block) float64 { return b.sum / float64(b.count) }
	for i := range n {
		blocks = append(blocks, block{anchors[i] - offset[i], 1})
		for k := len(blocks); k > 1 && mean(blocks[k-2]) > mean(blocks[k-1]); k = len(blocks) {
			blocks[k-2].sum += blocks[k-1].sum
			blocks[k-2].count += blocks[k-1].count
			blocks = blocks[:k-1]
		}
	}
	out := make([]float64, 0, n)
	if n == 0 {
		return out
	}
	low, high := widths[0]/2, width-widths[n-1]/2-offset[n-1]
	for _, b := range blocks {
		for range b.count {
			at := min(mean(b), high)
			out = append(out, max(at, low)+offset[len(out)])
		}
	}
	return out
}

// farthest is how far the labels were moved from their places.
func farthest(anchors, places []float64) float64 {
	far := 0.0
	for i := range anchors {
		far = max(far, math.Abs(anchors[i]-places[i]))
	}
	return far
}
