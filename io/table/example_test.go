package table_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/io/table"
)

func ExampleRead() {
	type row struct {
		Lead int64   `json:"lead_h"`
		CRPS float64 `json:"crps"`
	}
	dir, err := os.MkdirTemp("", "table-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "scores.parquet")
	if err := table.Write(path, []row{{24, 0.61}, {48, math.NaN()}}); err != nil {
		fmt.Println(err)
		return
	}
	rows, err := table.Read[row](context.Background(), path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rows)
	// Output: [{24 0.61} {48 NaN}]
}
