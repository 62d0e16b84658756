package grib

// Description is what the decoder says about a field: names that stand in its
// tables, and the time of templates that are not read here.
type Description struct {
	Name      string `json:"name"` // short name, "unknown" where the tables have none
	LongName  string `json:"long_name,omitempty"`
	Unit      string `json:"unit,omitempty"`
	LevelType string `json:"level_type,omitempty"`
	Level     float64
	DataType  string `json:"data_type,omitempty"` // "pf", "an", "em" …
	Stream    string `json:"stream,omitempty"`
	GridType  string `json:"grid_type,omitempty"`
	Packing   string `json:"packing,omitempty"`
	Statistic string `json:"statistic,omitempty"` // "instant", "accum", "max" …

	Date    int64 `json:"date"`    // yyyymmdd
	Seconds int64 `json:"seconds"` // since midnight
	// Start and End of the step in seconds.
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	StepKnown bool  `json:"step_known"`

	Number       int  `json:"number"`
	NumberKnown  bool `json:"number_known"`
	EnsembleSize int  `json:"ensemble_size"`

	Error string `json:"error,omitempty"` // the decoder could not open the message
}
