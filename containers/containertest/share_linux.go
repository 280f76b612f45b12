package containertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// StartSharing starts an engine whose containers survive it and that has an
// image of the machine's engine. The image takes no room of its own: its layers,
// which nobody ever writes to, are the same files under other names. That takes
// an engine with the overlay2 driver on the file system of temporary files;
// elsewhere the engine comes without the image, and the test says why.
func StartSharing(t testing.TB, image string) *Extra {
	t.Helper()
	return startExtra(t, true, false, 0, nil, func(data string) {
		if err := share(image, data); err != nil {
			t.Logf("image %s is not shared with the second engine: %v", image, err)
			os.RemoveAll(data)
		}
	})
}

// share puts an image of the machine's engine into the data folder of one that
// was never started.
func share(image, data string) (err error) {
	say := func(args ...string) (string, error) {
		out, err := exec.Command("docker", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	id, err := say("image", "inspect", "--format", "{{.Id}}", image)
	if err != nil {
		return fmt.Errorf("there is no such image: %w", err)
	}
	root, err := say("info", "--format", "{{.DockerRootDir}}/{{.Driver}}")
	if err != nil {
		return err
	}
	layers := "overlay2"
	if filepath.Base(root) != layers {
		return fmt.Errorf("the machine's engine keeps its layers in %s", root)
	}
	root = filepath.Dir(root)
	id = strings.TrimPrefix(id, "sha256:")
	content := filepath.Join("image", layers, "imagedb", "content", "sha256", id)
	config, err := os.ReadFile(filepath.Join(root, content))
	if err != nil {
		return err
	}
	var c struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return err
	}
	names, err := json.Marshal(map[string]any{"Repositories": map[string]any{strings.Split(image, ":")[0]: map[string]string{image: "sha256:" + id}}})
	if err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(content), filepath.Join("image", layers, "layerdb", "sha256"), filepath.Join(layers, "l")} {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(data, content), config, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "image", layers, "repositories.json"), names, 0o600); err != nil {
		return err
	}
	// dockerd mounts its folder onto itself, and nothing is linked across mounts:
	// the files are linked where the whole file system is seen without them.
	whole, err := os.MkdirTemp("", "benchfs")
	if err != nil {
		return err
	}
	if err := syscall.Mount("/", whole, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, syscall.Unmount(whole, syscall.MNT_DETACH), os.Remove(whole)) }()
	chain := ""
	for _, diff := range c.RootFS.DiffIDs {
		if chain == "" {
			chain = diff
		} else {
			sum := sha256.Sum256([]byte(chain + " " + diff))
			chain = "sha256:" + hex.EncodeToString(sum[:])
		}
		layer := filepath.Join("image", layers, "layerdb", "sha256", strings.TrimPrefix(chain, "sha256:"))
		folder, err := os.ReadFile(filepath.Join(root, layer, "cache-id"))
		if err != nil {
			return err
		}
		files := filepath.Join(layers, string(folder))
		if out, err := exec.Command("cp", "-a", filepath.Join(root, layer), filepath.Join(data, layer)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if out, err := exec.Command("cp", "-al", filepath.Join(whole, root, files), filepath.Join(whole, data, files)).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %.300s", err, out)
		}
		short, err := os.ReadFile(filepath.Join(root, files, "link"))
		if err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..", string(folder), "diff"), filepath.Join(data, layers, "l", string(short))); err != nil {
			return err
		}
	}
	return nil
}

// PowerCut kills all there is of the engine at once: dockerd and its helpers,
// and what runs in its containers.
func (x *Extra) PowerCut() {
	x.t.Helper()
	x.Kill()
	mine := []string{x.dir}
	cs, err := filepath.Glob(filepath.Join(x.dir, "data", "containers", "*"))
	if err != nil {
		x.t.Fatal(err)
	}
	for _, c := range cs {
		mine = append(mine, filepath.Base(c)) // of its control group
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		x.t.Fatal(err)
	}
	for _, p := range all {
		line, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		groups, _ := os.ReadFile(filepath.Join(p, "cgroup"))
		var pid int
		if _, err := fmt.Sscan(filepath.Base(p), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		for _, m := range mine {
			if strings.Contains(string(line), m) || strings.Contains(string(groups), m) {
				syscall.Kill(pid, syscall.SIGKILL)
				break
			}
		}
	}
}
