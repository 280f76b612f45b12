//go:build ignore

// Command kube is the parts of Kubernetes in one program; the first argument says which.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	parts := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubelet":                 kubelet.NewKubeletCommand,
	}
	name := filepath.Base(os.Args[0])
	if parts[name] == nil && len(os.Args) > 1 {
		name, os.Args = os.Args[1], os.Args[1:]
	}
	if parts[name] == nil {
		fmt.Fprintln(os.Stderr, "kube: which part?")
		os.Exit(64)
	}
	os.Exit(cli.Run(parts[name]()))
}
