// Package explain shows what the compiler makes of a network: its graph after every pass, its plan, memory and
// estimated times, as text, JSON or a page. Engineers read it to see why a step costs what it costs:
//
//	r, err := explain.Run(ctx, explain.Options{Config: c})
//	err = r.PlanSections().WriteText(os.Stdout)
package explain
