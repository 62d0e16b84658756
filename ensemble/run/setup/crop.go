package setup

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Crop is the size of a field in rows and columns. JSON and the command line write 128 for a square,
// otherwise "352x704".
type Crop struct{ Height, Width int }

// String returns the text of the command line.
func (c Crop) String() string {
	if c.Height == c.Width {
		return strconv.Itoa(c.Height)
	}
	return fmt.Sprintf("%dx%d", c.Height, c.Width)
}

// ParseCrop parses the text of String.
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
		return Crop{}, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid crop %q", s), Fix: "give a side, 128, or rows and columns, 352x704"}
	}
	return Crop{rows, columns}, nil
}

// MarshalJSON writes a number for a square, otherwise a string.
func (c Crop) MarshalJSON() ([]byte, error) {
	if c.Height == c.Width {
		return json.Marshal(c.Height)
	}
	return json.Marshal(c.String())
}

// UnmarshalJSON reads both forms.
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
