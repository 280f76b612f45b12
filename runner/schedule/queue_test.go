package schedule

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ids(jobs []Job) (out []int) {
	for _, j := range jobs {
		out = append(out, j.ID)
	}
	return out
}

func expect(t *testing.T, q *Queue, slots int, near func(string) bool, want ...int) {
	t.Helper()
	if got := ids(q.Next(slots, near)); !slices.Equal(got, want) {
		t.Errorf("next batch %v, want %v", got, want)
	}
}

// As long as nothing is known, each model shows first that it can be trained;
// then its seeds come in order, near their files.
func TestModelsAreTriedFirst(t *testing.T) {
	var q Queue
	for i, m := range []string{"a", "b"} {
		for seed := range 2 {
			q.Add(Job{ID: 10*i + seed, Model: m, Group: seed})
		}
	}
	expect(t, &q, 4, nil, 0)
	expect(t, &q, 4, nil, 10)
	q.Ended("a")
	q.Proven("a")
	expect(t, &q, 4, nil, 1)
	expect(t, &q, 4, nil, 11) // b is still tried, but there is nothing else to do
	expect(t, &q, 4, nil)
}

func TestOneSlotStaysWithItsModel(t *testing.T) {
	var q Queue
	for i, m := range []string{"a", "b"} {
		for seed := range 2 {
			q.Add(Job{ID: 10*i + seed, Model: m, Group: seed})
		}
	}
	expect(t, &q, 1, nil, 0)
	q.Ended("a")
	q.Proven("a")
	expect(t, &q, 1, func(m string) bool { return m == "a" }, 1)
	expect(t, &q, 1, func(m string) bool { return m == "a" }, 10)
}

func TestPriorityThenLength(t *testing.T) {
	var q Queue
	q.Add(Job{ID: 1, Model: "short", Cost: 10})
	q.Add(Job{ID: 2, Model: "long", Cost: 1000})
	q.Add(Job{ID: 3, Model: "longest", Cost: 1001})
	q.Add(Job{ID: 4, Model: "dear", Cost: 1, Priority: 1})
	near := func(m string) bool { return m == "long" || m == "short" }
	expect(t, &q, 1, near, 4)
	expect(t, &q, 1, near, 2) // as good as the longest, and its files are there
	expect(t, &q, 1, near, 3) // the short one is too short for that
	expect(t, &q, 1, near, 1)
}

// Towards the end batches get smaller, but not smaller than is worth a start.
func TestBatchesGetSmaller(t *testing.T) {
	var q Queue
	for i := range 20 {
		q.Add(Job{ID: i, Model: "m", Cost: 100})
	}
	var sizes []int
	for {
		jobs := q.Next(2, nil)
		if jobs == nil {
			break
		}
		sizes = append(sizes, len(jobs))
	}
	// 2000 s wait: a quarter of them is 500 s, and so on, down to two jobs of 100 s.
	if want := []int{5, 4, 3, 2, 2, 2, 2}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v jobs, want %v", sizes, want)
	}
	for i := range 20 {
		q.Add(Job{ID: i, Model: "m", Cost: 100})
	}
	if jobs := q.Next(1, nil); len(jobs) != 20 {
		t.Errorf("with one slot the batch was divided: %d jobs", len(jobs))
	}
}

// Every job comes out once, whatever is added, removed and costed in between.
func TestEveryJobOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		waiting := map[int]bool{}
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				q.Add(Job{ID: next, Model: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "model")), Group: rapid.IntRange(0, 2).Draw(t, "group"),
					Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Cost: rapid.Float64Range(0, 1000).Draw(t, "cost")})
				waiting[next] = true
				next++
			},
			"next": func(t *rapid.T) {
				jobs := q.Next(rapid.IntRange(1, 5).Draw(t, "slots"), func(m string) bool { return m == "1" })
				if (jobs == nil) != (len(waiting) == 0) {
					t.Fatalf("%d jobs wait, and the next batch is %v", len(waiting), jobs)
				}
				for _, j := range jobs {
					if !waiting[j.ID] || j.Model != jobs[0].Model || j.Group != jobs[0].Group {
						t.Fatalf("job %+v in a batch of %+v", j, jobs[0])
					}
					delete(waiting, j.ID)
				}
				if jobs != nil && rapid.Bool().Draw(t, "ends") {
					q.Ended(jobs[0].Model)
				}
			},
			"remove": func(t *rapid.T) {
				m := fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "model"))
				q.Remove(func(j Job) bool {
					if j.Model == m {
						delete(waiting, j.ID)
					}
					return j.Model == m
				})
			},
			"cost": func(t *rapid.T) { q.Cost(func(j Job) float64 { return float64(j.ID % 7) }) },
			"": func(t *rapid.T) {
				if q.Len() != len(waiting) {
					t.Fatalf("the queue has %d jobs, %d wait", q.Len(), len(waiting))
				}
			},
		})
	})
}

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		what  string
		hosts []Host
		want  int
	}{
		{"no host", nil, -1},
		{"all are busy", []Host{{Slots: 2, Busy: 2}, {Slots: 1, Busy: 1}}, -1},
		{"the emptier one", []Host{{Slots: 4, Busy: 3}, {Slots: 4, Busy: 2}}, 1},
		{"the first of equal ones", []Host{{Slots: 4, Busy: 2}, {Slots: 2, Busy: 1}}, 0},
		{"the one with the model", []Host{{Slots: 4}, {Slots: 4, Busy: 3, Has: true}}, 1},
		{"not the one that failed", []Host{{Slots: 4, Failed: true, Has: true}, {Slots: 4, Busy: 3}}, 1},
		{"one batch tries the one that failed", []Host{{Slots: 4, Failed: true}, {Slots: 4, Busy: 4}}, 0},
		{"no second batch tries it", []Host{{Slots: 4, Failed: true, Busy: 1}}, -1},
		{"nobody tries one that rests", []Host{{Slots: 4, Failed: true, Resting: true}}, -1},
	} {
		if got := Place(c.hosts); got != c.want {
			t.Errorf("%s: host %d, want %d", c.what, got, c.want)
		}
	}
}

func TestEstimates(t *testing.T) {
	var e Estimates
	if s := e.Seconds("a", "x"); s != 0 {
		t.Errorf("nothing is known, and a job takes %v", s)
	}
	e.Add("a", "x", 10)
	e.Add("a", "x", 20) // a on x: 15
	e.Add("b", "x", 45) // x: 25; b on x: 45, its pace 1.8
	e.Add("a", "y", 30)
	for _, c := range []struct {
		model, set string
		want       float64
	}{
		{"a", "x", 15}, {"b", "x", 45}, {"b", "y", 30 * 1.8}, {"new", "x", 25}, {"new", "z", 27.5}, {"b", "z", 27.5 * 1.8},
	} {
		if got := e.Seconds(c.model, c.set); got != c.want {
			t.Errorf("%s on %s: %v s, want %v", c.model, c.set, got, c.want)
		}
	}
	if !e.Known("y") || e.Known("z") {
		t.Error("what is known is not known")
	}
}
