package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/ensemble/run/explain"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// passFlags are --without and --only: the optional passes of the compiler that a plan has.
type passFlags struct {
	f             *pflag.FlagSet
	without, only []string
}

// bind adds the flags.
func (p *passFlags) bind(f *pflag.FlagSet) {
	p.f = f
	f.StringSliceVar(&p.without, "without", nil, "leave out these compiler passes: `PASS[,PASS]` of `ensemble engine passes`")
	f.StringSliceVar(&p.only, "only", nil, "leave out all optional compiler passes but `PASS[,PASS]`")
}

// read returns the passes to leave out.
//
// Errors: exit 64 for unknown and required passes, and both flags.
func (p *passFlags) read() ([]string, error) {
	if !p.f.Changed("only") {
		return p.without, withFlag("--without", explain.CheckOptional(p.without))
	}
	if p.f.Changed("without") {
		return nil, &exit.Error{Code: exit.Usage, What: "--without and --only together", At: "the command line", Fix: "give one of them"}
	}
	without, err := explain.AllBut(p.only)
	return without, withFlag("--only", err)
}

// set returns the setting of train.without_passes for the flags; none without them.
//
// Errors: those of read.
func (p *passFlags) set() ([]string, error) {
	if !p.f.Changed("only") && !p.f.Changed("without") {
		return nil, nil
	}
	without, err := p.read()
	if err != nil || len(without) == 0 {
		return nil, err
	}
	return []string{"train.without_passes=[" + strings.Join(without, ", ") + "]"}, nil
}
