package kept

// What a trainer may write, wherever it runs, beside the bounds of package job.
const (
	MaxLog      = 64 << 20 // bytes of the log, and of the events, of one start
	MaxOut      = 4 << 30  // bytes in the out folder, if the user does not say
	MaxEntries  = 100_000  // files and folders there
	Outcome     = "outcome.json"
	Predictions = "predictions.jsonl"
)
