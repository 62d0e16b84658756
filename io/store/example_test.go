package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// A rank with rows 4 to 7 of the grid reads them for one initialisation, with all
// leads, members, variables and levels.
func Example() {
	parent, err := os.MkdirTemp("", "store-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "store")
	p, _ := plan(BFloat16, 7)
	if _, err := Write(context.Background(), dir, p, Options{}); err != nil {
		fmt.Println(err)
		return
	}
	s, err := Open(context.Background(), dir, OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	rows := ensemble.Window{Rows: [2]int{4, 8}, Cols: [2]int{0, s.Grid.NX}}
	f, analyses, err := s.Read(context.Background(), s.Inits()[2], Selection{Window: rows})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Init, len(f.Axes.Leads), "leads", len(f.Members), "members", f.Grid.NY, "rows")
	fmt.Println(len(analyses), "analyses, the first of", analyses[0].Variables, "at", analyses[0].Valid)
	// Output:
	// 2001-02-04T00:00Z 2 leads 3 members 4 rows
	// 2 analyses, the first of [gh] at 2001-02-05T12:00Z
}
