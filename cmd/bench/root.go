package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// app is what all commands share: where to write, and the global flags.
type app struct {
	stdout, stderr io.Writer
	home           string // --home
	mirror         string // --mirror
	catalog        string // --catalog
	json           bool   // --json
}

func newRoot(stdout, stderr io.Writer) *cobra.Command {
	a := &app{stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure how good language models are in the Scandinavian languages",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage(fmt.Sprintf("%s --help", c.CommandPath()), "%w", err)
	})
	f := root.PersistentFlags()
	f.StringVar(&a.home, "home", "", "folder for data sets, jobs and results (default $BENCH_HOME, else $XDG_DATA_HOME/bench)")
	f.StringVar(&a.mirror, "mirror", os.Getenv("BENCH_MIRROR"), "folder with copies of source files and an index.json, for sites without internet")
	f.StringVar(&a.catalog, "catalog", "", "YAML file with data sets of your own")
	f.BoolVar(&a.json, "json", false, "write JSON lines to stdout")
	root.AddCommand(newRun(a), newSweep(a), newStatus(a), newLogs(a), newData(a), newImage(a), newDoctor(a), newGC(a))
	root.AddCommand(newImport(a), newExport(a), newLeaderboard(a), newTransfer(a), newCompare(a), newScore(a))
	root.CompletionOptions.HiddenDefaultCmd = true
	checkArgs(root)
	return root
}

// checkArgs makes wrong arguments of every command usage errors.
func checkArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usage(fmt.Sprintf("%s --help", c.CommandPath()), "%w", err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArgs(sub)
	}
}

// homeDir returns the folder of this run, made if it is not there.
func (a *app) homeDir() (string, error) {
	dir := a.home
	if dir == "" {
		dir = os.Getenv("BENCH_HOME")
	}
	if dir == "" {
		data := os.Getenv("XDG_DATA_HOME")
		if data == "" {
			user, err := os.UserHomeDir()
			if err != nil {
				return "", usage("give one with --home DIR", "no home folder: %w", err)
			}
			data = filepath.Join(user, ".local", "share")
		}
		dir = filepath.Join(data, "bench")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", usage("give another folder with --home DIR", "home: %w", err)
	}
	return dir, nil
}

// version is that of the module, or of the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if revision == "" {
		return "devel"
	}
	return "devel-" + revision + dirty
}
