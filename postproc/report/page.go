package report

import (
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Page is the content of a report. Empty parts are left out.
type Page struct {
	Title string
	// Line below the title: the state of the run.
	Status []Fact
	// To other pages.
	Links []Link
	// Maps.
	Panels []Panel
	// Rendered maps, below Panels.
	Rendered []RenderedPanel
	Tables   []Table
	// Loss curves, or as ChartsTitle.
	Charts []Chart
	// ChartsTitle is the heading of the charts; "": "Training".
	ChartsTitle string
	// Scores may be nil.
	Scores *score.Result
	// Effective configuration, YAML.
	Config string
	Inputs []File
	// Versions, device and other properties of the environment.
	Facts    []Fact
	Warnings []string
	// Places are maps of the difference of a score by place.
	Places []Panel
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

// TableOf converts a section of an answer to a table, with its cells as text.
func TableOf(title string, s answer.Section) Table {
	t := Table{Title: title}
	t.Columns, t.Rows = s.Cells()
	return t
}

// File is an input or output with its checksum.
//
// Unit: Size in bytes. SHA256 is hexadecimal.
type File struct {
	Path   string
	Size   int64
	SHA256 string
}

// Panel is a row of maps of one quantity side by side on one colour scale, so that the maps can be
// compared.
type Panel struct {
	// "temperature at 850hPa, init … valid …".
	Title string
	// Unit of all maps, as displayed.
	Unit string
	// Valid is the valid time; zero: unknown.
	Valid ensemble.Valid
	// Diverging: colours are symmetric about zero, for differences.
	Diverging bool
	// Palette are the colours of amounts; nil: Sequential.
	Palette Colours
	// Probability: the scale is 0 to 100 %.
	Probability bool
	// Isolines is the interval of isolines; 0: none.
	Isolines float64
	Maps     []Map
	// SameScale are all fields that share the colour scale, those of Maps included; nil: those of Maps.
	SameScale [][]float32
	// Variable and Lead group panels: a page with several of either shows one group at a time.
	Variable, Lead string
	// Stamps: many small maps without axes.
	Stamps bool
	// Folded: hidden until the reader opens it.
	Folded bool
	// PageOnly: the panel has no PNG files.
	PageOnly bool
	// Note stands below the title.
	Note string
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
	// Muted marks points that are drawn pale, because their values are not significant; nil: none.
	Muted []bool
	// Spaghetti are drawn instead of the field; nil: none.
	Spaghetti *Spaghetti
	// Reference is the system that a map of differences compares with, and WorseShare the fraction of
	// the area with a significantly worse score.
	Reference  string
	WorseShare float64
}

// Place is a location on the globe.
//
// Unit: degrees east and north.
type Place struct{ Lon, Lat float64 }

// Chart is a set of lines over a common x axis. The page shows it as a picture and as a table.
type Chart struct {
	// Title and axis labels.
	Title, X, Y string
	// Logarithmic y axis.
	LogY bool
	// Zero: the y axis contains 0, with a line.
	Zero bool
	// Dates: X are days since 1970-01-01 00 UTC, and ticks are dates.
	Dates bool
	// Narrow: for a card of half the width.
	Narrow bool
	Lines  []Line
}

// Line is one curve of a Chart.
//
// Shape: X and Y of equal length. Missing: NaN interrupts the line.
type Line struct {
	Name string
	X, Y []float64
	// Low and High are the ends of intervals; nil: none.
	Low, High []float64
}
