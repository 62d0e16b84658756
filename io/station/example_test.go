package station_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/io/station"
)

func ExampleRead() {
	dir, err := os.MkdirTemp("", "station-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "stations.csv")
	if err := os.WriteFile(path, []byte("id,name,lat,lon,elevation\n06670,Zurich Airport,47.48,8.53,432\n06610,Payerne,46.81,6.94,\n"), 0o666); err != nil {
		fmt.Println(err)
		return
	}
	list, err := station.Read(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range list {
		fmt.Println(s.ID, s.Name, s.Lat, s.Lon, s.Altitude)
	}
	// Output:
	// 06670 Zurich Airport 47.48 8.53 432
	// 06610 Payerne 46.81 6.94 NaN
}
