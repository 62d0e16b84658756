package schema_test

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

func ExampleNew() {
	type file struct {
		Station string `key:"station"`
	}
	kinds := schema.Kinds{reflect.TypeFor[string](): {Want: "a word", Format: func(v any) string { return v.(string) },
		Parse: func(n *yaml.Node, _ string) (any, error) { return n.Value, nil }}}
	s := schema.New[file]("example", kinds, []schema.Key{{Path: "station", Required: true, Example: "home", Help: "Name of the station."}})

	d := s.ReadText("a.yaml", ".", []byte("station: hill\n"))
	fmt.Println(d.Values["station"], d.At["station"])

	d = s.ReadText("b.yaml", ".", []byte("staton: hill\n"))
	fmt.Println(d.Faults[0].At, d.Faults[0].What)
	fmt.Println(d.Faults[0].Fix)
	// Output:
	// hill a.yaml:1:1
	// b.yaml:1:1 unknown key "staton"
	// did you mean `station`? write `station: hill`
}
