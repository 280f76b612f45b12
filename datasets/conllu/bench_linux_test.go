package conllu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// treebankBytes returns a treebank of at least n bytes, in the proportions of a
// real one: comments, ten columns, features.
func treebankBytes(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "# sent_id = dev-%d\n# text = Hun læste en meget lang bog i går aftes.\n", i)
		for k, w := range []string{
			"Hun\thun\tPRON\t_\tCase=Nom|Gender=Com|Number=Sing|Person=3|PronType=Prs\t2\tnsubj\t_\t_",
			"læste\tlæse\tVERB\t_\tMood=Ind|Tense=Past|VerbForm=Fin|Voice=Act\t0\troot\t_\t_",
			"en\ten\tDET\t_\tGender=Com|Number=Sing|PronType=Ind\t6\tdet\t_\t_",
			"meget\tmeget\tADV\t_\tDegree=Pos\t5\tadvmod\t_\t_",
			"lang\tlang\tADJ\t_\tDefinite=Ind|Degree=Pos|Gender=Com|Number=Sing\t6\tamod\t_\t_",
			"bog\tbog\tNOUN\t_\tDefinite=Ind|Gender=Com|Number=Sing\t2\tobj\t_\t_",
			"i\ti\tADP\t_\tAdpType=Prep\t8\tcase\t_\t_",
			"går\tgår\tNOUN\t_\tDefinite=Ind|Gender=Com|Number=Sing\t2\tobl\t_\t_",
			"aftes\taftes\tADV\t_\t_\t8\tadvmod\t_\tSpaceAfter=No",
			".\t.\tPUNCT\t_\t_\t2\tpunct\t_\t_",
		} {
			fmt.Fprintf(&b, "%d\t%s\n", k+1, w)
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// The speed of reading on one core.
func BenchmarkReader(b *testing.B) {
	text := treebankBytes(8 << 20)
	cases := map[string][]byte{"made": text}
	for _, file := range []string{"UD_Icelandic-Modern/*/is_modern-ud-train.conllu", "UD_Norwegian-Bokmaal/*/no_bokmaal-ud-dev.conllu"} {
		paths, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "mirror", "files", "raw.githubusercontent.com", "UniversalDependencies", file))
		for _, p := range paths {
			if content, err := os.ReadFile(p); err == nil {
				cases[filepath.Base(p)] = content
			}
		}
	}
	for name, text := range cases {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				r := NewReader(bytes.NewReader(text), "bench")
				n := 0
				for r.Scan() {
					n += len(r.Sentence().Rows)
				}
				if err := r.Err(); err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.N)*float64(len(text))/1e6/(cpuTime()-start).Seconds(), "MB/cpu-s")
		})
	}
}

// cpuTime is the processor time of this process: on a machine that does other
// things too, it says more than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
