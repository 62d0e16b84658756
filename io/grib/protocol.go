package grib

// Kinds of requests that the child serves for this package. The answer to
// ValuesKind is a []wire.Values: float32 in stored order and the file's unit, NaN
// where missing.
const (
	DescribeKind = "grib-describe"
	ValuesKind   = "grib-values"
)

// Batch is the request of both kinds: some fields of one file.
type Batch struct {
	Path   string `json:"path"`
	Fields []Ref  `json:"fields"`
}
