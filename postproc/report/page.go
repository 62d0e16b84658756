package report

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Page is the content of a report. Empty parts are left out.
type Page struct {
	Title    string
	Status   []Fact          // line below the title: the state of the run
	Links    []Link          // to other pages
	Panels   []Panel         // maps
	Rendered []RenderedPanel // rendered maps, below Panels
	Tables   []Table
	Charts   []Chart // loss curves, or as ChartsTitle
	// ChartsTitle is the heading of the charts; "": "Training".
	ChartsTitle string
	Scores      *score.Result
	Config      string // effective configuration, YAML
	Inputs      []File
	Facts       []Fact // versions, device and other properties of the environment
	Warnings    []string
}

// Fact is a name with a value as text.
type Fact struct{ Name, Text string }

// Link is the name and address of another page.
type Link struct{ Name, URL string }

// Table is a table of text.
//
// Shape: Columns [column], Rows [row][column].
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	// Sortable: a click on a column heading sorts the rows, by a script in the page.
	Sortable bool
}

// TableOf converts a section of an answer to a table.
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
	Title string // "temperature at 850hPa, init … valid …"
	Unit  string // unit of all maps, SI
	Valid ensemble.Valid
	// Diverging: colours are symmetric about zero, for differences.
	Diverging bool
	Maps      []Map
}

// RenderedPanel is a Panel with rendered pictures. Rendering takes most of the time of a page.
type RenderedPanel struct{ row mapRow }

// Map is one field.
//
// Shape: Values [NY*NX]. Unit: that of the Panel. Missing: NaN, drawn hatched.
type Map struct {
	Title  string
	Grid   *ensemble.Grid
	Values []float32
	// Outline is a line drawn over the field, usually around an area; nil: none. Longitudes
	// continue beyond ±180 where it crosses the date line.
	Outline []Place
}

// Place is a location on the globe.
//
// Unit: degrees east and north.
type Place struct{ Lon, Lat float64 }

// Chart is a set of lines over a common x axis. The page shows it as a picture and as a table.
type Chart struct {
	Title, X, Y string // title and axis labels
	LogY        bool   // logarithmic y axis
	Lines       []Line
}

// Line is one curve of a Chart.
//
// Shape: X and Y of equal length. Missing: NaN interrupts the line.
type Line struct {
	Name string
	X, Y []float64
}
