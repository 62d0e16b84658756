package report

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Page is everything that a report shows. Parts that are empty are left out.
type Page struct {
	Title    string
	Status   []Fact          // the line a forecaster reads first
	Links    []Link          // to other pages
	Panels   []Panel         // maps
	Rendered []RenderedPanel // more maps, behind those
	Tables   []Table
	Charts   []Chart // loss curves, or what ChartsTitle says
	// ChartsTitle is the heading of the charts, "" for Training.
	ChartsTitle string
	Scores      *score.Result
	Config      string // effective configuration, YAML
	Inputs      []File
	Facts       []Fact // environment
	Warnings    []string
}

// Fact is a name with its value, as text.
type Fact struct{ Name, Text string }

// Link is the address of another page with its name.
type Link struct{ Name, URL string }

// Table is a table of text. Shape: Rows [row][column].
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	// Sortable tables have columns to click on, by a script in the page.
	Sortable bool
}

// TableOf is a section of an answer as a table of a page.
func TableOf(title string, s answer.Section) Table {
	t := Table{Title: title}
	t.Columns, t.Rows = s.Cells()
	return t
}

// File is an input or output with its checksum.
type File struct {
	Path   string
	Size   int64
	SHA256 string
}

// Panel is a row of maps of one quantity side by side on one colour scale.
type Panel struct {
	Title string // "temperature at 850hPa, start … valid …"
	Unit  string // of all maps: SI
	Valid ensemble.Valid
	// Diverging centres the colours at zero, for differences.
	Diverging bool
	Maps      []Map
}

// RenderedPanel is a panel whose pictures are made: what takes most of the time of a page.
type RenderedPanel struct{ row mapRow }

// Map is one field.
//
// Shape: Values [NY*NX]. Missing: NaN, shown hatched.
type Map struct {
	Title  string
	Grid   *ensemble.Grid
	Values []float32
	// Outline is a line that is drawn over the field, around an area as a rule. Longitudes go
	// on beyond ±180 where it crosses the date line.
	Outline []Place
}

// Place is a place on the globe in degrees.
type Place struct{ Lon, Lat float64 }

// Chart is a set of lines over one axis, which the page shows as a picture and as
// a table.
type Chart struct {
	Title, X, Y string
	LogY        bool
	Lines       []Line
}

// Line is one curve. Shape: X and Y of one length. Missing: NaN breaks the line.
type Line struct {
	Name string
	X, Y []float64
}
