package grib

// Kinds of requests that the child serves for this package.
const (
	DescribeKind = "grib-describe"
	ValuesKind   = "grib-values"
)

// Batch is the request of both kinds: some fields of one file.
type Batch struct {
	Path   string `json:"path"`
	Fields []Ref  `json:"fields"`
}

// Decoded says where in the output payload one field's values are: float32,
// little-endian, in stored order and the file's unit, NaN where missing.
type Decoded struct {
	At      int    `json:"at"`
	Count   int    `json:"n"`
	Missing int    `json:"m,omitempty"`
	Error   string `json:"e,omitempty"`
}
