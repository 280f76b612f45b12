package job

// State is how a job ended.
type State string

// The states of a job that has ended.
const (
	OK     State = "ok"
	Failed State = "failed"
)

// Failure is the kind of a failed job.
type Failure string

// The kinds of failure.
const (
	FailureOOM         Failure = "oom"         // out of memory at the smallest micro-batch, or killed for memory
	FailureNaN         Failure = "nan"         // no finite loss, not in fp32 either
	FailureUnsupported Failure = "unsupported" // this model cannot do this task
	FailureInput       Failure = "input"       // unreadable rows or model files
	FailureTrainer     Failure = "trainer"     // fault of the trainer
	FailureOutput      Failure = "output"      // predictions that are not what the protocol asks for
	FailureTimeout     Failure = "timeout"     // ran past its time limit
	FailureInfra       Failure = "infra"       // engine or device lost, disk full, killed from outside
)

// Retryable says whether the same job may end otherwise when run again.
func (f Failure) Retryable() bool { return f == FailureInfra }

// Known says whether f is one of the kinds above.
func (f Failure) Known() bool {
	switch f {
	case FailureOOM, FailureNaN, FailureUnsupported, FailureInput, FailureTrainer, FailureOutput, FailureTimeout, FailureInfra:
		return true
	}
	return false
}

// What a trainer may write of one job, in bytes: it may be running somebody
// else's code.
const (
	MaxOutcome     = 8 << 20   // outcome.json
	MaxPredictions = 512 << 20 // predictions.jsonl
)

// TrainerOutcome is OUT/JOB/outcome.json as a trainer writes it.
type TrainerOutcome struct {
	Version          int                `json:"protocol"`
	Job              ID                 `json:"job"`
	State            State              `json:"state"`
	Failure          Failure            `json:"failure"`
	Message          string             `json:"message"`
	Steps            int                `json:"steps"`
	BestStep         int                `json:"best_step"`
	ValidationLosses [][2]float64       `json:"validation_losses"` // [step, loss]
	MicroBatch       int                `json:"micro_batch"`
	Accumulation     int                `json:"accumulation"`
	Precision        string             `json:"precision"`
	MaxLength        int                `json:"max_length"` // tokens; 0: does not apply
	Parameters       int64              `json:"parameters"` // trainable
	Vocabulary       int                `json:"vocabulary"`
	Seconds          map[string]float64 `json:"seconds"`        // load, tokenize, train, predict
	PeakMemoryMB     map[string]float64 `json:"peak_memory_mb"` // host, device
	Device           string             `json:"device"`         // cpu, cuda
	DeviceName       string             `json:"device_name"`
	Threads          int                `json:"threads"`
	Versions         map[string]string  `json:"versions"`
	// Energy is what the job's GPU used from its start to its end, all its tries
	// together; nil: not measured.
	Energy *Energy `json:"energy,omitempty"`
}

// Energy is an amount of energy, and how it is known.
type Energy struct {
	Joules float64 `json:"joules"`
	Source string  `json:"source"` // one of the Energy… constants
}

// How an amount of energy is known. A trainer says one of the first three.
const (
	EnergyNVML     = "nvml"     // the GPU's own counter, read at the start and at the end
	EnergyPower    = "power"    // the GPU's power, looked at again and again, times the time
	EnergyNone     = "none"     // no GPU was used; what the processor took is not measured
	EnergyEstimate = "estimate" // a power that is assumed, times GPU seconds
)

// maxJoules is more than a GPU uses in ten years.
const maxJoules = 1e12

// Valid says whether a trainer may have measured e.
func (e Energy) Valid() bool {
	switch e.Source {
	case EnergyNVML, EnergyPower:
		return e.Joules >= 0 && e.Joules <= maxJoules
	case EnergyNone:
		return e.Joules == 0
	}
	return false
}
