package notebooks

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"slices"
)

// encodePNG encodes a picture as a small PNG for the notebook. It reduces the picture to its 256
// most frequent colours and maps other colours, mainly of smoothed edges, to the nearest of these.
func encodePNG(m image.Image) ([]byte, error) {
	type count struct {
		colour color.RGBA
		n      int
	}
	b := m.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
	found := map[color.RGBA]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			found[at(x, y)]++
		}
	}
	var counts []count
	for c, n := range found {
		counts = append(counts, count{c, n})
	}
	slices.SortFunc(counts, func(a, b count) int {
		return cmp.Or(b.n-a.n, cmp.Compare(a.colour.R, b.colour.R), cmp.Compare(a.colour.G, b.colour.G), cmp.Compare(a.colour.B, b.colour.B), cmp.Compare(a.colour.A, b.colour.A))
	})
	var palette color.Palette
	for _, c := range counts[:min(len(counts), 256)] {
		palette = append(palette, c.colour)
	}
	index := make(map[color.RGBA]uint8, len(counts))
	for i, c := range counts {
		if i >= len(palette) {
			i = palette.Index(c.colour)
		}
		index[c.colour] = uint8(i)
	}
	few := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			few.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few)
	return out.Bytes(), err
}
