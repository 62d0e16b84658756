package grib

// Names of the requests of this package to the decoding child. The result of
// ValuesKind is a []wire.Values: float32 in storage order, in the unit of the file,
// NaN for missing values.
const (
	DescribeKind = "grib-describe"
	ValuesKind   = "grib-values"
)

// Batch holds the arguments of both requests: fields of one file.
type Batch struct {
	Path   string `json:"path"`
	Fields []Ref  `json:"fields"`
}
