package netcdf

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
)

func scanFile(t *testing.T, path string) error {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return Scan(f, st.Size())
}

func TestScanAcceptsSoundFiles(t *testing.T) {
	for _, set := range []string{"formats/netcdf/*", "gcm/*.nc", "glosea4/*.nc", "mogreps-uk/*/*.nc", "mogreps-uk/*/*/*.nc", "broken/derived/netcdf/hdf5_user*", "broken/derived/netcdf/numrecs*", "broken/derived/netcdf/vsize*", "broken/derived/netcdf/hdf5_trailing*"} {
		name, pattern, _ := strings.Cut(set, "/")
		files, err := filepath.Glob(filepath.Join(testdata.Dir(t, name), pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", set, len(files), err)
		}
		for _, f := range files {
			if err := scanFile(t, f); err != nil {
				t.Errorf("%s: %v", filepath.Base(f), err)
			}
		}
	}
}

func TestScanRefusesDamage(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t, "broken"), "derived", "netcdf")
	for _, name := range []string{"magic_only", "cut_in_header", "cut_in_data", "version_9", "high_bits_lost", "dim_length_huge", "dim_length_negative",
		"dim_count_huge", "dim_tag_wrong", "name_length_huge", "var_count_huge", "type_99", "dimid_out_of_range", "ndims_huge", "begin_past_end",
		"begin_in_header", "attribute_count_huge", "hdf5_cut_half", "hdf5_cut_last_kb", "hdf5_signature_wrong", "hdf5_superblock_version_77"} {
		var fault *Fault
		if err := scanFile(t, filepath.Join(dir, name+".nc")); !errors.As(err, &fault) {
			t.Errorf("%s: %v, want a fault", name, err)
		}
	}
}

// Every prefix of a classic file is rejected: none is complete.
func TestScanRefusesEveryPrefix(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata.Dir(t, "formats"), "netcdf", "offset64_packed_era5_2t_1.nc"))
	if err != nil {
		t.Fatal(err)
	}
	for n := 4; n < len(b); n++ {
		// The last bytes may be padding of a record.
		if err := Scan(bytes.NewReader(b[:n]), int64(n)); err == nil && n < len(b)-3 {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(b))
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("CDF\x01\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x00\x01"))
	f.Add([]byte("\x89HDF\r\n\x1a\n\x00\x00\x00\x00\x00\x08\x08\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := Scan(bytes.NewReader(b), int64(len(b))); err != nil && len(err.Error()) > 10_000 {
			t.Error("an endless message")
		}
	})
}
