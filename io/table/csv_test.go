package table

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWriteCSV(t *testing.T) {
	type row struct {
		Name  string    `json:"name"`
		N     int       `json:"n"`
		Value float64   `json:"value"`
		At    time.Time `json:"at"`
	}
	path := filepath.Join(t.TempDir(), "x.csv")
	if err := WriteCSV(path, []row{{`a, "b"`, 3, 0.1, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, {"c", -1, math.NaN(), time.Time{}}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := "name,n,value,at\n\"a, \"\"b\"\"\",3,0.1,2026-01-02T03:04:05Z\nc,-1,,\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	if err := WriteCSV(path, []int{1}); err == nil {
		t.Error("rows that are no structs were written")
	}
}
