package procid

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestRuns(t *testing.T) {
	me, err := Self()
	if err != nil || !me.Runs() || me.PID != os.Getpid() || !me.Near(me) {
		t.Fatalf("%+v, %v", me, err)
	}
	later := me
	later.Start++
	if later.Runs() {
		t.Error("a process with my pid that began at another time runs")
	}
	for _, other := range []ID{{Boot: "another", PIDs: me.PIDs}, {Boot: me.Boot, PIDs: "pid:[1]"}} {
		if me.Near(other) {
			t.Errorf("%+v is near", other)
		}
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	st, err := Read(child.Process.Pid)
	if err != nil || st.Parent != me.PID {
		t.Fatalf("%+v, %v", st, err)
	}
	id := ID{PID: child.Process.Pid, Start: st.Start, Boot: me.Boot, PIDs: me.PIDs}
	if !id.Runs() {
		t.Error("the child does not run")
	}
	child.Process.Kill()
	for end := time.Now().Add(10 * time.Second); id.Runs() && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if st, err := Read(id.PID); id.Runs() || err != nil || st.State != 'Z' {
		t.Errorf("it was killed and nobody has waited for it: %+v, %v", st, err)
	}
	child.Wait()
	if id.Runs() {
		t.Error("it is gone and runs")
	}
}
