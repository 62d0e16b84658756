package report

import "math"

// markText is the position of the text of a mark, to the right or left of its triangle.
type markText struct {
	// Offset of the text's nearer end, at half height.
	dx, dy float64
	// The text is left of the mark.
	left bool
}

// Gap and height of the text of a mark, in units of an eleventh of the text size.
const (
	tagGap    = 8.0
	tagHeight = 13.0
)

// placeMarkTexts positions the texts of two marks of the given widths between the borders low and
// high of x, so that neither covers the other text or its triangle. The candidates are right
// and left of the mark, at its height, above and below. If none is free, the text is placed on
// the side with more space.
//
// Shape: index 0 is the maximum, 1 the minimum.
func placeMarkTexts(at [2]point, width [2]float64, low, high float64) (out [2]markText) {
	type box struct{ x0, x1, y0, y1 float64 }
	// around is the box of text k at position t; cross reports whether two boxes overlap;
	// triangle is the box of mark k.
	around := func(k int, t markText) box {
		b := box{at[k].x + t.dx, at[k].x + t.dx + width[k], at[k].y + t.dy - tagHeight/2, at[k].y + t.dy + tagHeight/2}
		if t.left {
			b.x0, b.x1 = at[k].x+t.dx-width[k], at[k].x+t.dx
		}
		return b
	}
	cross := func(a, b box) bool { return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1 }
	triangle := func(k int) box { return box{at[k].x - 5, at[k].x + 5, at[k].y - 5, at[k].y + 5} }
	for k := range at {
		found := false
		for _, dy := range []float64{0, tagHeight, -tagHeight} {
			for _, t := range []markText{{tagGap, dy, false}, {-tagGap, dy, true}} {
				b := around(k, t)
				if found || b.x0 < low || b.x1 > high || cross(b, triangle(1-k)) || k == 1 && cross(b, around(0, out[0])) {
					continue
				}
				out[k], found = t, true
			}
		}
		if !found { // crowded: the side with more room
			out[k] = markText{tagGap, 0, false}
			if math.Abs(at[k].x-low) > math.Abs(high-at[k].x) {
				out[k] = markText{-tagGap, 0, true}
			}
		}
	}
	return out
}

// textWidth estimates the width of a bold text of the given size: 0.6 of the size per character.
func textWidth(s string, size float64) float64 { return 0.6 * size * float64(len([]rune(s))) }
