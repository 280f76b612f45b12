package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Files that are no sweep, or no text, or nearly right: every one is refused with
// exit code 64, with its line and what would be right, and nobody waits for it.
func TestWrongSweepFiles(t *testing.T) {
	const good = "models: [baseline:ngram]\nsuite: sample\n"
	dir := t.TempDir()
	for name, text := range map[string]string{
		"dup.txt": "baseline:ngram\nbaseline:tagger\nbaseline:ngram\n", "empty.txt": "# none\n\n", "names.txt": "org/a b\r\norg/x/y\nfine/name\n",
		"bom.txt": "\ufeffbaseline:nope\n", "latin1.txt": "fine/name\norg/K\xf8b\n", "ok.txt": "baseline:ngram\n",
		"many.txt": strings.Repeat("x/y\n", 2<<20), "long.txt": "a/b\n" + manyNames(10_500),
	} {
		put(t, filepath.Join(dir, name), text)
	}
	const noYAML = "check brackets, quotes and indentation"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"is empty"}},
		{"comments", "# nothing\n", []string{"is empty"}},
		{"null", "null\n", []string{"there is nothing in it", "it begins with models: and suite:"}},
		{"one word", "hello\n", []string{`:1: "hello" stands where a mapping, key: value is wanted`}},
		{"tab", "models:\n\t- baseline:ngram\nsuite: sample\n", []string{":2: found character that cannot start any token", "YAML takes no tabs"}},
		{"indentation", "models:\n  - baseline:ngram\n - baseline:tagger\nsuite: sample\n", []string{":3: did not find expected key", noYAML}},
		{"quote", "models: [\"baseline:ngram]\nsuite: sample\n", []string{":3: found unexpected end of stream", noYAML}},
		{"colon", "models: baseline: ngram\nsuite: sample\n", []string{":1: mapping values are not allowed", "needs quotes"}},
		{"anchor that is not there", "suite: sample\nmodels: *m\n", []string{":2: unknown anchor 'm'", "put a text with * in quotes"}},
		{"anchor in itself", "models: &a [*a]\nsuite: sample\n", []string{":1: a model is a name"}},
		{"anchor of something else", "models: &m [baseline:ngram]\nsuite: sample\ndatasets: *m\n", []string{`there is no data set "baseline:ngram"`}},
		{"key for an anchor", "x: &x [baseline:ngram]\nmodels: *x\nsuite: sample\n", []string{":1: there is no key x"}},
		{"merged key", "x: &x {seeds: 2}\n<<: *x\n" + good, []string{":1: there is no key x"}},
		{"bomb of aliases", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nmodels: *d\nsuite: sample\n", []string{":4: there is no key d"}},
		{"depth", "models: " + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "\n", []string{"exceeded max depth", noYAML}},
		{"tag", "models: !!python/object [baseline:ngram]\nsuite: sample\n", []string{":1: the tag !!python/object means nothing here"}},
		{"UTF-16", "\xff\xfem\x00", []string{":1: this is not UTF-8 (byte 0xff): save the file in that encoding"}},
		{"Latin-1", good + "name: K\xf8benhavn\n", []string{":3: this is not UTF-8 (byte 0xf8)"}},
		{"control character", good + "name: a\x00b\n", []string{":3: a control character (U+0000)"}},
		{"byte order mark and CRLF", "\ufeff" + strings.ReplaceAll(good, "\n", "\r\n") + "sedes: 3\r\n", []string{":3: there is no key sedes; did you mean seeds?"}},
		{"10 MB", good + strings.Repeat("# "+strings.Repeat("y", 70)+"\n", 150_000), []string{"has more than 4 MiB"}},
		{"key is a number", good + "3: 4\n", []string{":3: there is no key 3"}},
		{"key is nothing", good + "~: 4\n", []string{":3: there is no key ~"}},
		{"key is a list", good + "? [a]\n: 4\n", []string{":3: a list stands where one text is wanted"}},
		{"key in capitals", good + "Seeds: 4\n", []string{":3: there is no key Seeds; did you mean seeds?"}},
		{"key as a flag", good + "slots-per-gpu: 4\n", []string{"did you mean slots_per_gpu?"}},
		{"key twice, deeper", good + "limits: {kwh: 2, kwh: 3}\n", []string{`:3: mapping key "kwh" already defined`}},
		{"key twice in a model", "models: [{name: 'baseline:ngram', name: 'baseline:ngram'}]\nsuite: sample\n", []string{":1: model: name is there twice"}},
		{"second document", good + "...\nmore: 1\n", []string{"second document"}},

		{"number in words", good + "seeds: ten\n", []string{`:3: "ten" stands where a whole number is wanted`}},
		{"number in a list", good + "seeds: [1]\n", []string{":3: a list stands where a whole number"}},
		{"no value", good + "seeds:\n", []string{":3: seeds has no value: give it one, or leave the key out"}},
		{"beyond all numbers", good + "seeds: 99999999999999999999\n", []string{":3: ", "a whole number is wanted"}},
		{"too many threads", good + "threads: 100000000\n", []string{":3: threads is 100000000; it is a number from 0"}},
		{"price NaN", good + "price: .nan\n", []string{":3: price is NaN; it is what a GPU hour costs, such as 2.5"}},
		{"price without end", good + "price: .inf\n", []string{":3: price is +Inf"}},
		{"decimal comma", good + "price: 2,50\n", []string{`:3: "2,50" stands where a number is wanted`}},
		{"price in euros", good + "price: 2.5 EUR\n", []string{`:3: "2.5 EUR" stands where a number is wanted`}},
		{"no power", good + "watts_per_gpu: 0\n", []string{":3: watts_per_gpu is 0; it is the power of a GPU in W"}},
		{"carbon NaN", good + "carbon: .nan\n", []string{":3: carbon is NaN; it is kg CO2e a kWh"}},
		{"limit NaN", good + "limits: {kwh: .nan}\n", []string{":3: limits: kwh is NaN; it is a number above 0"}},
		{"limit with a unit", good + "limits: {gpu_hours: 3h}\n", []string{`:3: "3h" stands where a number is wanted`}},
		{"limits in a list", good + "limits: [3]\n", []string{":3: a list stands where a mapping"}},
		{"memory in GiB", good + "memory: 16GiB\n", []string{`:3: memory: "16GiB" is not a size`, "such as 800m or 16g"}},
		{"memory beyond all numbers", good + "memory: 99999999999999999999g\n", []string{":3: memory: ", "is not a size"}},
		{"memory of a GPU without a unit", good + "gpu_memory: 8\n", []string{":3: gpu_memory 8 is less than any model takes", "such as 8g"}},
		{"days", good + "timeout: 2d\n", []string{`:3: "2d" stands where a time, such as 6h or 30m`}},
		{"years", good + "timeout: 99999999h\n", []string{":3: ", "a time, such as 6h"}},
		{"patience", good + "patience: -2m\n", []string{":3: patience cannot be negative"}},
		{"truth", good + "partial: maybe\n", []string{`:3: "maybe" stands where true or false is wanted`}},
		{"rate in words", good + "set: [learning_rate=fast, batch_size=0]\n", []string{":3: protocol: learning_rate=fast is not a number", ":3: protocol: batch_size=0 must be"}},
		{"rate NaN", good + "set: [learning_rate=NaN]\n", []string{":3: ", "must be a number > 0"}},
		{"rate without =", good + "set: [learning_rate]\n", []string{":3: ", "is not of the form key=value"}},
		{"rate twice", good + "set: [learning_rate=1e-3, learning_rate=1e-4]\n", []string{":3: protocol: learning_rate is set twice"}},
		{"set as a mapping", good + "set: {learning_rate: 1e-3}\n", []string{":3: a mapping stands where a list of texts"}},

		{"data sets in an empty list", "models: [baseline:ngram]\ndatasets: []\n", []string{":2: datasets is an empty list: name something, or leave the key out"}},
		{"data set without a list", "models: [baseline:ngram]\ndatasets: sample-ner\n", []string{`:2: "sample-ner" stands where a list of texts`}},
		{"language in capitals", good + "languages: [DA]\n", []string{`:3: no data set is in the language "DA"; there are da, de`}},
		{"task in capitals", good + "tasks: [NER]\n", []string{`:3: there is no task "NER"; there are ner, sentiment`}},
		{"suite in a list", "models: [baseline:ngram]\nsuite: [sample]\n", []string{":2: a list stands where one text is wanted"}},

		{"models are nothing", "models:\nsuite: sample\n", []string{":1: models has no value"}},
		{"models in a mapping", "models: {name: x/y}\nsuite: sample\n", []string{":1: a mapping stands where a list is wanted"}},
		{"a model is a number", "models: [3]\nsuite: sample\n", []string{":1: a model is a name"}},
		{"a model is a list", "models: [[a/b]]\nsuite: sample\n", []string{":1: a model is a name"}},
		{"two revisions that are one", "models:\n- org/name\n- org/name@main\nsuite: sample\n", []string{":3: model org/name@main is org/name, which is there already, at "}},
		{"two cases that are one", "models:\n- org/Name\n- org/name\nsuite: sample\n", []string{":3: model org/name is org/Name, which is there already, at "}},
		{"an address for a name", "models: ['https://huggingface.co/org/name']\nsuite: sample\n", []string{":1: model https://huggingface.co/org/name: ", "name a model as org/name"}},
		{"no revision", "models: ['org/name@']\nsuite: sample\n", []string{":1: model org/name@: what follows the @"}},
		{"a file of models with two alike", "models: [{file: dup.txt}]\nsuite: sample\n", []string{"dup.txt:3: model baseline:ngram is there already, at ", "dup.txt:1"}},
		{"the same file twice", "models: [{file: ok.txt}, {file: ok.txt}]\nsuite: sample\n", []string{"ok.txt:1: model baseline:ngram is there already"}},
		{"a file of no models", "models: [{file: empty.txt}]\nsuite: sample\n", []string{":1: ", "empty.txt names no models"}},
		{"a file of wrong names", "models: [{file: names.txt}]\nsuite: sample\n", []string{"names.txt:1: model org/a b: ", "names.txt:2: model org/x/y: "}},
		{"a file with a byte order mark", "models: [{file: bom.txt}]\nsuite: sample\n", []string{`bom.txt:1: there is no baseline "nope"`}},
		{"a file in Latin-1", "models: [{file: latin1.txt}]\nsuite: sample\n", []string{"latin1.txt:2: this is not UTF-8"}},
		{"a file of 8 MB", "models: [{file: many.txt}]\nsuite: sample\n", []string{":1: ", "many.txt has more than 4 MiB"}},
		{"a file without end", "models: [{file: /dev/zero}]\nsuite: sample\n", []string{":1: /dev/zero has more than 4 MiB"}},
		{"a folder of models", "models: [{file: .}]\nsuite: sample\n", []string{":1: ", "is a directory"}},
		{"too many models", "models: [{file: long.txt}]\nsuite: sample\n", []string{":1: there are more than 10000 models"}},

		{"no hosts", good + "executor: docker\nhosts: []\n", []string{":4: hosts is an empty list"}},
		{"hosts without a list", good + "hosts: ssh://a\n", []string{`:3: "ssh://a" stands where a list is wanted`}},
		{"host with another scheme", good + "hosts: [http://a]\n", []string{":3: host http://a: that is no address; there are unix"}},
		{"host without a scheme", good + "hosts: [gpu1]\n", []string{":3: host gpu1: that is no address"}},
		{"host without an address", good + "hosts: [{name: a}]\n", []string{":3: host: it has no address"}},
		{"host with its port", good + "hosts:\n- ssh://a\n- ssh://A:22/\n", []string{":5: host ssh://A:22/ is host ssh://a, at line 4"}},
		{"host with certificates that are gone", good + "hosts: [{address: 'tcp://a:2376', tls: gone}]\n", []string{":3: host tcp://a:2376: tls is a folder with ca.pem"}},
		{"transfer", good + "hosts: [{address: 'ssh://a', transfer: teleport}]\n", []string{`:3: host ssh://a: transfer is "teleport"; it can be bind or copy`}},
		{"GPUs", good + "gpus: lots\n", []string{":3: gpus: ", "say how many there are"}},
		{"key of Slurm", good + "executor: slurm\nslurm: {partion: a}\n", []string{":4: there is no key partion; there are account, partition"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, "sweep.yaml")
			put(t, path, c.text)
			a := &app{stdout: io.Discard, stderr: io.Discard, home: filepath.Join(dir, "home")}
			begun := time.Now()
			_, err := a.readSweep(path)
			if err == nil {
				t.Fatal("it is accepted")
			}
			if code := classify(err); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			text := err.Error() + "\n" + strings.Join(hints(err), "\n")
			has(t, text, c.want...)
			if len(hints(err)) == 0 {
				t.Error("there is no hint")
			}
			if strings.Contains(c.want[0], ":") && !strings.Contains(text, path) && !strings.Contains(text, ".txt:") {
				t.Errorf("the file is not named:\n%s", text)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if _, err := (&app{home: dir}).readSweep(dir); err == nil || classify(err) != exitUsage {
		t.Errorf("a folder: %v", err)
	}
	if _, err := (&app{home: dir}).readSweep(filepath.Join(dir, "gone.yaml")); err == nil || classify(err) != exitUsage {
		t.Errorf("a file that is not there: %v", err)
	}
	secret := filepath.Join(dir, "secret.yaml")
	put(t, secret, good)
	if os.Chmod(secret, 0); os.Getuid() != 0 {
		if _, err := (&app{home: dir}).readSweep(secret); err == nil || classify(err) != exitUsage {
			t.Errorf("a file that may not be read: %v", err)
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("org/m" + strings.Repeat("x", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)) + "\n")
	}
	return b.String()
}
