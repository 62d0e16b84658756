package answer

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

func TestWrite(t *testing.T) {
	two := &exit.Error{Code: exit.BadData, What: "a <b>", At: "x", More: []*exit.Error{{Code: exit.BadData, What: "c"}}}
	for _, c := range []struct {
		name string
		err  error
		data any
		want string
	}{
		{"nothing to add", nil, nil, `{"schema":"ensemble.config-show/1","command":"config show","version":"v","status":"ok","exit_code":0,"outputs":[],"warnings":[]}`},
		{"empty data", nil, struct{}{}, `"warnings":[]}`},
		{"fields follow", nil, struct {
			N int `json:"n"`
		}{3}, `"warnings":[],"n":3}`},
		{"a file that has names of its own", nil, struct {
			Schema  string `json:"schema"`
			N       int    `json:"n"`
			Version string `json:"version"`
		}{"ensemble.alarms/1", 3, "w"}, `"version":"v","status":"ok","exit_code":0,"outputs":[],"warnings":[],"n":3}`},
		{"error with a second", two, nil, `"status":"failed","exit_code":65,"outputs":[],"warnings":[],"error":{"code":"E065","what":"a <b>","at":"x","more":[{"code":"E065","what":"c"}]}}`},
		{"stopped", &exit.Error{Code: exit.SaveAndStop, What: "s"}, nil, `"status":"interrupted","exit_code":75`},
		{"no code", errors.New("oops"), nil, `"exit_code":70,"outputs":[],"warnings":[],"error":{"code":"E070","what":"oops"`},
	} {
		var b strings.Builder
		if err := New("config show", "v", c.err).Write(&b, c.data); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) || !json.Valid([]byte(b.String())) || strings.Count(b.String(), "\n") != 1 {
			t.Errorf("%s: got %s, want %s", c.name, b.String(), c.want)
		}
	}
	if got := New("", "v", nil).Schema; got != "ensemble/1" {
		t.Errorf("schema of the program itself is %s", got)
	}
	if err := New("x", "v", nil).Write(&strings.Builder{}, []int{1}); err == nil {
		t.Error("a list was written as an object")
	}
}
