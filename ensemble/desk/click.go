package desk

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/ensemble-weather/ensemble/postproc/report"
)

// clickWidths are the widths at which style sheets show a map, from narrow to wide screens. The names of the image
// inputs that lie over it contain the width, because browsers send a click in pixels of the picture as it is shown.
//
// Unit: CSS pixels.
var clickWidths = []int{280, 350, 640, 590}

// clickName is the name of the image input over map j at a width. Browsers append .x and .y.
func clickName(j, width int) string { return fmt.Sprintf("map%d-%d", j, width) }

// clicked returns the position of a click on a map in a query; ok is false without one.
//
// Unit: in widths of the picture.
func clicked(q url.Values) (j int, x, y float64, ok bool) {
	for j := range 2 {
		for _, width := range clickWidths {
			name := clickName(j, width)
			px, errX := strconv.ParseFloat(q.Get(name+".x"), 64)
			py, errY := strconv.ParseFloat(q.Get(name+".y"), 64)
			if errX == nil && errY == nil {
				return j, px / float64(width), py / float64(width), true
			}
		}
	}
	return 0, 0, 0, false
}

// place returns the place of a click on a map of the selection.
//
// Errors: *badPlaceError beside the map; those of chartOf.
func (d *Desk) place(ctx context.Context, s *selection, q url.Values) (*report.Place, error) {
	j, x, y, ok := clicked(q)
	if !ok {
		return nil, nil
	}
	c, err := d.chartOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if j < len(c.panel.Maps) {
		if at, ok := c.panel.Locate(j, x, y); ok {
			return &at, nil
		}
	}
	return nil, &badPlaceError{"The click is not on the map: click inside its frame, or give latitude and longitude."}
}
