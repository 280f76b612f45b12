package containers

import (
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
)

// Cards with and without MIG, with and without the columns that old drivers
// lack. The form is that of nvidia-smi 550 (--format=csv,noheader,nounits and -L).
func TestParse(t *testing.T) {
	cards, sliced, err := parseCards([]byte("0, GPU-a, NVIDIA A100 80GB PCIe, 81920, Enabled, 87, 8.0, 550.54.15\n1, GPU-b, NVIDIA A30, 24576, Enabled, 0, 8.0, 550.54.15\n2, GPU-c, Tesla T4, 15360, [N/A], 3, 7.5, 550.54.15\n3, GPU-d, NVIDIA GB10, [N/A], [N/A], [N/A], 12.1, 580.95.05\n"))
	if err != nil || len(cards) != 2 || len(sliced) != 2 {
		t.Fatalf("%+v, %+v, %v", cards, sliced, err)
	}
	if want := (GPU{UUID: "GPU-c", Index: 2, Name: "Tesla T4", MemoryMiB: 15360, UsedMiB: 3, Compute: "7.5", Driver: "550.54.15"}); cards[0] != want {
		t.Errorf("got %+v, want %+v", cards[0], want)
	}
	if cards[1].MemoryMiB != 0 || cards[1].Compute != "12.1" {
		t.Errorf("a card with the machine's memory: %+v", cards[1])
	}
	list := "GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-a)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n  MIG 1g.20gb     Device  1: (UUID: MIG-2)\n  MIG 4g.40gb     Device  2: (UUID: MIG-3)\n" +
		"GPU 1: NVIDIA A30 (UUID: GPU-b)\n  MIG 1g.6gb+me   Device  0: (UUID: MIG-4)\nGPU 2: Tesla T4 (UUID: GPU-c)\nGPU 3: NVIDIA GB10 (UUID: GPU-d)\n"
	got := parseSlices([]byte(list), sliced)
	want := []GPU{
		{UUID: "MIG-1", Name: "NVIDIA A100 80GB PCIe MIG 1g.10gb", MemoryMiB: 10240, Share: 1. / 8, Slice: 0, Parent: "GPU-a"},
		{UUID: "MIG-2", Name: "NVIDIA A100 80GB PCIe MIG 1g.20gb", MemoryMiB: 20480, Share: 2. / 8, Slice: 1, Parent: "GPU-a"},
		{UUID: "MIG-3", Name: "NVIDIA A100 80GB PCIe MIG 4g.40gb", MemoryMiB: 40960, Share: 4. / 8, Slice: 2, Parent: "GPU-a"},
		{UUID: "MIG-4", Name: "NVIDIA A30 MIG 1g.6gb+me", MemoryMiB: 6144, Share: 2. / 8, Index: 1, Parent: "GPU-b"},
	}
	for i := range want {
		want[i].Compute, want[i].Driver = "8.0", "550.54.15"
	}
	if !slices.Equal(got, want) {
		t.Errorf("slices\n%+v, want\n%+v", got, want)
	}

	// An H200 in slices, one of them in two compute instances; the names of slices
	// are those of NVIDIA's guide (MIG Device Names).
	h200 := []GPU{{UUID: "GPU-h", Name: "NVIDIA H200", MemoryMiB: 143771}}
	list = "GPU 0: NVIDIA H200 (UUID: GPU-h)\n  MIG 3g.71gb     Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)\n  MIG 1c.2g.35gb  Device  1: (UUID: MIG-2)\n  MIG 1c.2g.35gb  Device  2: (UUID: MIG-3)\n" +
		"  MIG 1g.18gb+me  Device  3: (UUID: MIG-GPU-h/9/0)\n"
	var shares []float64
	for _, g := range parseSlices([]byte(list), h200) {
		shares = append(shares, g.Share)
	}
	if want := []float64{4. / 8, 1. / 8, 1. / 8, 1. / 8}; !slices.Equal(shares, want) {
		t.Errorf("shares %v, want %v", shares, want)
	}

	old, _, err := parseCards([]byte("0, GPU-a, Tesla K80, 11441, [N/A]\n"))
	if err != nil || len(old) != 1 || old[0] != (GPU{UUID: "GPU-a", Name: "Tesla K80", MemoryMiB: 11441}) {
		t.Errorf("an old driver: %+v, %v", old, err)
	}
	for _, bad := range []string{"No devices were found\n", "0, GPU-a, x, 1, y, z\n", "x, GPU-a, x, 1, N\n", "0, MIG-a, x, 1, N\n"} {
		if _, _, err := parseCards([]byte(bad)); err == nil {
			t.Errorf("%q is taken for an answer", bad)
		}
	}
}

// What a container holds, by all the ways in which it can be given GPUs. The
// forms are what docker inspect shows of containers made with the options named.
func TestGPUsOf(t *testing.T) {
	request := func(driver string, count int, ids []string, capabilities ...string) *container.HostConfig {
		return &container.HostConfig{Resources: container.Resources{DeviceRequests: []container.DeviceRequest{{Driver: driver, Count: count, DeviceIDs: ids, Capabilities: [][]string{capabilities}}}}}
	}
	runtime := &container.HostConfig{Runtime: "nvidia"}
	for name, c := range map[string]struct {
		host *container.HostConfig
		env  []string
		want []string
	}{
		"nothing":                 {&container.HostConfig{Runtime: "runc"}, nil, nil},
		"an image's env alone":    {&container.HostConfig{Runtime: "runc"}, []string{"NVIDIA_VISIBLE_DEVICES=all"}, nil},
		"--gpus all":              {request("", -1, nil, "gpu"), nil, []string{"all"}},
		"--gpus 2":                {request("", 2, nil, "gpu"), nil, []string{"0", "1"}},
		"--gpus device=":          {request("", 0, []string{"GPU-a", "1"}, "gpu"), nil, []string{"GPU-a", "1"}},
		"bench's own":             {request("nvidia", 0, []string{"MIG-a"}, "gpu", "compute", "utility"), nil, []string{"MIG-a"}},
		"a monitor":               {request("", -1, nil, "gpu", "utility"), nil, nil},
		"a monitor, by its image": {request("", -1, nil, "gpu"), []string{"NVIDIA_DRIVER_CAPABILITIES=utility"}, nil},
		"--device cdi":            {request("cdi", 0, []string{"nvidia.com/gpu=GPU-a", "nvidia.com/gpu=0:1", "other.com/x=1"}), nil, []string{"GPU-a", "0:1"}},
		"something else's driver": {request("amd", 0, []string{"1"}, "x"), nil, nil},
		"--runtime nvidia":        {runtime, []string{"NVIDIA_VISIBLE_DEVICES=GPU-a,GPU-b"}, []string{"GPU-a", "GPU-b"}},
		"--runtime nvidia, all":   {runtime, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"}, []string{"all"}},
		"--runtime nvidia, void":  {runtime, []string{"NVIDIA_VISIBLE_DEVICES=void"}, nil},
		"--runtime nvidia, looks": {runtime, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"}, nil},
		"--device /dev/nvidia1":   {&container.HostConfig{Resources: container.Resources{Devices: []container.DeviceMapping{{PathOnHost: "/dev/nvidia1"}, {PathOnHost: "/dev/nvidiactl"}}}}, nil, []string{"1"}},
		"request beats environment": {func() *container.HostConfig {
			h := request("", 0, []string{"0"}, "gpu")
			h.Runtime = "nvidia"
			return h
		}(), []string{"NVIDIA_VISIBLE_DEVICES=all"}, []string{"0"}},
	} {
		if got := gpusOf(c.host, &container.Config{Env: c.env}); !slices.Equal(got, c.want) {
			t.Errorf("%s: holds %q, want %q", name, got, c.want)
		}
	}
}

// Under systemd, GPUs come by CDI if they can.
func TestRequestsUnderSystemd(t *testing.T) {
	e := newFake().open(t)
	e.info.CDIDevices, e.info.NvidiaRuntime = []string{"nvidia.com/gpu=GPU-1"}, true
	for cgroup, want := range map[string]string{"v2/systemd": "cdi", "v1/cgroupfs": "nvidia"} {
		e.info.Cgroup = cgroup
		if r := e.requests([]string{"GPU-1"}); r[0].Driver != want {
			t.Errorf("%s: %+v", cgroup, r)
		}
		if keeps, not := e.KeepsGPUs([]GPU{{UUID: "GPU-1"}}), e.KeepsGPUs([]GPU{{UUID: "GPU-1"}, {UUID: "GPU-2"}}); !keeps || not != (want == "nvidia") {
			t.Errorf("%s: keeps one %v, both %v", cgroup, keeps, not)
		}
		if r := e.requests([]string{"GPU-2"}); r[0].Driver != "nvidia" {
			t.Errorf("%s, a GPU without a CDI name: %+v", cgroup, r)
		}
	}
}

// An engine that has GPUs by CDI only, under the names that nvidia-ctk gives unasked.
func TestRequestsByNumber(t *testing.T) {
	e := newFake().open(t)
	e.info.CDIDevices = []string{"nvidia.com/gpu=0", "nvidia.com/gpu=1:2", "nvidia.com/gpu=all"}
	e.gpus = []GPU{{UUID: "GPU-a"}, {UUID: "MIG-b", Index: 1, Slice: 2, Parent: "GPU-p"}}
	for gpu, want := range map[string]string{"GPU-a": "nvidia.com/gpu=0", "MIG-b": "nvidia.com/gpu=1:2", "all": "nvidia.com/gpu=all", "0": "nvidia.com/gpu=0"} {
		if r := e.requests([]string{gpu}); r[0].Driver != "cdi" || r[0].DeviceIDs[0] != want {
			t.Errorf("%s: %+v", gpu, r)
		}
	}
	if r := e.requests([]string{"GPU-c"}); r[0].Driver != "nvidia" || r[0].DeviceIDs[0] != "GPU-c" {
		t.Errorf("a GPU that is not known: %+v", r)
	}
}
