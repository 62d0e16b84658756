package report

import (
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
)

// PNG gives a function that writes map j of the panel as a picture.
func (p Panel) PNG(j int) func(io.Writer) error {
	return func(w io.Writer) error {
		m := p.Maps[j]
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range m.Values {
			if !math.IsNaN(float64(v)) {
				low, high = math.Min(low, float64(v)), math.Max(high, float64(v))
			}
		}
		img := image.NewGray(image.Rect(0, 0, m.Grid.NX, m.Grid.NY))
		for k, v := range m.Values {
			img.SetGray(k%m.Grid.NX, k/m.Grid.NX, color.Gray{Y: uint8(255 * (float64(v) - low) / (high - low))})
		}
		return png.Encode(w, img)
	}
}
