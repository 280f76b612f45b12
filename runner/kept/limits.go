package kept

// What a trainer may write, wherever it runs.
const (
	MaxLog      = 64 << 20  // bytes of the log, and of the events, of one start
	MaxOut      = 4 << 30   // bytes in the out folder, if the user does not say
	MaxEntries  = 100_000   // files and folders there
	MaxOutcome  = 8 << 20   // bytes of a job's outcome.json
	MaxResults  = 512 << 20 // bytes of a job's predictions.jsonl
	Outcome     = "outcome.json"
	Predictions = "predictions.jsonl"
)
