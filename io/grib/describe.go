package grib

// Description holds what ecCodes reports about a field: names from its tables, and
// the time of product definition templates that this package does not read.
type Description struct {
	Name      string  `json:"name"` // short name; "unknown" if the tables have none
	LongName  string  `json:"long_name,omitempty"`
	Unit      string  `json:"unit,omitempty"` // in the spelling of ecCodes, such as "m s**-1"
	LevelType string  `json:"level_type,omitempty"`
	Level     float64 // value of ecCodes' key level
	DataType  string  `json:"data_type,omitempty"` // "pf", "an", "em" …
	Stream    string  `json:"stream,omitempty"`
	GridType  string  `json:"grid_type,omitempty"`
	Packing   string  `json:"packing,omitempty"`
	Statistic string  `json:"statistic,omitempty"` // "instant", "accum", "max" …

	Date    int64 `json:"date"`    // yyyymmdd
	Seconds int64 `json:"seconds"` // of the reference time, since midnight
	// Start and End bound the forecast step, in seconds. They are valid if
	// StepKnown.
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	StepKnown bool  `json:"step_known"`
	StepUnit  int   `json:"step_unit"` // code of the unit of time in the message

	Number int `json:"number"`
	// Number is valid
	NumberKnown  bool `json:"number_known"`
	EnsembleSize int  `json:"ensemble_size"` // number of members; 0 if not stated

	Error string `json:"error,omitempty"` // why ecCodes could not open the message; empty on success
}
