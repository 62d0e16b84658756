package report_test

import (
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/postproc/report"
)

func ExamplePage_Write() {
	page := report.Page{Title: "Spread at 850hPa", Status: []report.Fact{{Name: "members", Text: "9 used of 10"}},
		Charts: []report.Chart{{Title: "Loss", X: "epoch", Y: "loss", Lines: []report.Line{{Name: "training", X: []float64{1, 2}, Y: []float64{0.5, 0.25}}}}}}
	var html strings.Builder
	if err := page.Write(&html); err != nil {
		fmt.Println(err)
		return
	}
	from := strings.Index(html.String(), "Line chart.")
	fmt.Println(html.String()[from : from+strings.Index(html.String()[from:], `"`)])
	// Output: Line chart. Loss: loss over epoch. training: from 0.5 at 1 to 0.25 at 2, lowest 0.25 at 2.
}
