package setup

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Crop is a piece of the field: rows and columns. In JSON and on the command line
// it is 128 for a square, else "352x704".
type Crop struct{ Height, Width int }

// String is the text of the command line.
func (c Crop) String() string {
	if c.Height == c.Width {
		return strconv.Itoa(c.Height)
	}
	return fmt.Sprintf("%dx%d", c.Height, c.Width)
}

// ParseCrop reads what String prints.
//
// Errors: exit 64.
func ParseCrop(s string) (Crop, error) {
	h, w, two := strings.Cut(s, "x")
	if !two {
		w = h
	}
	rows, err1 := strconv.Atoi(h)
	columns, err2 := strconv.Atoi(w)
	if err1 != nil || err2 != nil || rows < 1 || columns < 1 {
		return Crop{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%q is no crop", s), Fix: "give a side, 128, or rows and columns, 352x704"}
	}
	return Crop{rows, columns}, nil
}

// MarshalJSON writes a number for a square, else a text.
func (c Crop) MarshalJSON() ([]byte, error) {
	if c.Height == c.Width {
		return json.Marshal(c.Height)
	}
	return json.Marshal(c.String())
}

// UnmarshalJSON reads both.
func (c *Crop) UnmarshalJSON(text []byte) error {
	s := string(text)
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(text, &s); err != nil {
			return err
		}
	}
	var err error
	*c, err = ParseCrop(s)
	return err
}
