package fio_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// openStore opens the store of writeStore; close removes it.
func openStore() (in *fio.Input, close func(), err error) {
	dir, err := os.MkdirTemp("", "fio-")
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, "fc.zarr")
	if err = writeStore(path); err == nil {
		in, err = fio.Open(context.Background(), []string{path}, fio.Options{Decode: decode.Options{Program: decode.ProgramName}})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", err, os.RemoveAll(dir))
	}
	return in, func() { in.Close(); os.RemoveAll(dir) }, nil
}

// Read the two eastern columns of the northern row of each field, in kelvin.
func ExampleInput_ReadWindow() {
	in, closeInput, err := openStore()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeInput()
	w := ensemble.Window{Rows: [2]int{0, 1}, Cols: [2]int{1, 3}}
	err = in.ReadWindow(context.Background(), in.Catalogue().Entries, w, func(_ int, f *ensemble.Field) error {
		fmt.Println(f.Key.Lead, f.Grid.Lon, f.Values, f.Unit)
		in.Recycle(f.Values)
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 24h [10 20] [274.15 275.15] K
	// 48h [10 20] [280.15 281.15] K
}

// Read all fields into one slice of the caller, one after the other.
func ExampleInput_ReadInto() {
	in, closeInput, err := openStore()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeInput()
	entries := in.Catalogue().Entries
	n := entries[0].Grid.Size()
	all := make([]float32, n*len(entries))
	err = in.ReadInto(context.Background(), entries, ensemble.Window{},
		func(i int) ([]float32, error) { return all[i*n : (i+1)*n], nil }, func(int) error { return nil })
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(all[0], all[len(all)-1])
	// Output: 273.15 284.15
}

// Read the field of one lead.
func ExampleInput_ReadOne() {
	in, closeInput, err := openStore()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeInput()
	f, err := in.ReadOne(context.Background(), in.Catalogue().Entries[1])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Key.Variable, f.Key.Lead, f.Grid.NY, f.Grid.NX, f.Values[0], f.Unit)
	// Output: 2t 48h 2 3 279.15 K
}
