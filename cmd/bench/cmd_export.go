package main

import (
	"fmt"
	"io"
	"slices"

	"bench/internal/atomicfile"
	"bench/scoring/results"
	"bench/scoring/results/scandeval"

	"github.com/spf13/cobra"
)

// exportFormats maps the names of formats to layouts; "" is a model card's.
var exportFormats = map[string]string{"scandeval": scandeval.Nested, "eee": scandeval.EEE, "model-index": ""}

func newExport(a *app) *cobra.Command {
	var format, out string
	var models, datasets, protocols []string
	c := &cobra.Command{
		Use: "export", Short: "Write results for ScandEval, EuroEval or a model card", Args: cobra.NoArgs,
		Long: `Write results for other programs: scandeval is the JSON lines of ScandEval 5 to
13, eee EuroEval's "Every Eval Ever" records, model-index the YAML of a model
card on the Hugging Face Hub.

bench import reads the first two again, to the last bit; what their layouts have
no place for is in a field "bench", which other programs skip. Of repeated
records the one that counts is written.`,
		Example: `  bench export --format scandeval -o scandeval_benchmark_results.jsonl
  bench export --format model-index --model org/name`,
		RunE: func(*cobra.Command, []string) error { return a.export(format, out, models, datasets, protocols) },
	}
	f := c.Flags()
	f.StringVar(&format, "format", "scandeval", "scandeval, eee or model-index")
	f.StringVarP(&out, "output", "o", "", "file to write (default: the standard output)")
	f.StringSliceVar(&models, "model", nil, "only these models")
	f.StringSliceVar(&datasets, "dataset", nil, "only these data sets")
	f.StringSliceVar(&protocols, "protocol", nil, "only these protocols")
	return c
}

func (a *app) export(format, out string, models, datasets, protocols []string) error {
	layout, ok := exportFormats[format]
	if !ok {
		return usage("bench export --help", "there is no format %q; there are scandeval, eee, model-index", format)
	}
	recs, err := a.records()
	if err != nil {
		return err
	}
	in := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	recs = slices.DeleteFunc(recs, func(r results.Record) bool {
		return len(r.Replicates) == 0 || !in(models, r.Model.ID) || !in(datasets, r.Dataset.Name) || !in(protocols, r.Protocol)
	})
	if len(recs) == 0 {
		return usage("bench run, or bench import FILE", "there are no results to export")
	}
	return a.output(out, func(w io.Writer) error {
		if layout == "" {
			return scandeval.WriteModelIndex(w, recs)
		}
		return scandeval.Write(w, recs, layout)
	})
}

// records reads the results of this home: of each identity the record that
// counts.
func (a *app) records() ([]results.Record, error) {
	home, err := a.homeDir()
	if err != nil {
		return nil, err
	}
	all, err := a.readLog(results.Open(home))
	if err != nil {
		return nil, err
	}
	kept, _ := results.Newest(all)
	return kept, nil
}

// readLog reads all records of a log. Torn lines are warnings.
func (a *app) readLog(log *results.Log) ([]results.Record, error) {
	all, warnings, err := log.Read()
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		fmt.Fprintln(a.stderr, "bench: warning:", w)
	}
	return all, nil
}

// output writes to a file, whole or not at all, or to the standard output.
func (a *app) output(path string, write func(io.Writer) error) error {
	if path == "" || path == "-" {
		return write(a.stdout)
	}
	return atomicfile.Write(path, write)
}
