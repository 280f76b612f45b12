// Package leaderboard turns records into a ranking that says how sure it is.
//
// Scores are aggregated as in the ScandEval paper: a model's scores on data
// sets are averaged to one for each language and task, those to one for each
// language, those to one overall; the data sets of the two written forms of
// Norwegian are averaged within Norwegian.
package leaderboard

import (
	"time"

	"bench/scoring"
	"bench/scoring/results"
	"bench/scoring/stats"
)

// Schema is the version of Board's layout; docs/leaderboard.schema.json has it.
const Schema = 1

// Board is a ranking, with all that a page about it shows. In JSON equal
// records and options give equal bytes.
type Board struct {
	Type   string    `json:"type"` // leaderboard
	Schema int       `json:"schema"`
	Bench  string    `json:"bench"`           // version of the program
	Newest time.Time `json:"newest,omitzero"` // when the newest record was finished

	Score     string        `json:"score"`     // mean, or rank: the successor's rank score, the lower the better
	Errors    string        `json:"errors"`    // propagated, or mean: the reference's mean of half-widths
	Ranks     string        `json:"ranks"`     // intervals, or euroeval: the successor's dense ranks
	Level     float64       `json:"level"`     // of all intervals
	Protocols []string      `json:"protocols"` // whose scores are in it
	Mixed     bool          `json:"mixed"`     // more than one protocol: the scores are not the same quantity
	Partial   bool          `json:"partial"`   // scores on partial data sets are in it
	Filters   Filters       `json:"filters"`
	Rates     results.Rates `json:"rates"` // of energy, emission and price

	Languages []Language    `json:"languages"`
	Tasks     []TaskInfo    `json:"tasks"`
	Datasets  []DatasetInfo `json:"datasets"`
	Models    []Row         `json:"models"`     // with all data sets, the best first
	Unranked  []Row         `json:"incomplete"` // with what is missing, by name
	LeftOut   []LeftOut     `json:"left_out"`
	Notes     []string      `json:"notes"`
	// Transfer is filled in by who shows it; see OfTable and Board.TransferOf.
	Transfer *Transfer `json:"transfer,omitempty"`
}

// Filters say what a board was asked for; empty ones let everything through.
type Filters struct {
	Languages     []string `json:"languages,omitempty"`
	Tasks         []string `json:"tasks,omitempty"`
	Datasets      []string `json:"datasets,omitempty"`
	Models        []string `json:"models,omitempty"`  // patterns as of path.Match
	Exclude       []string `json:"exclude,omitempty"` // likewise
	MinParameters int64    `json:"min_parameters,omitempty"`
	MaxParameters int64    `json:"max_parameters,omitempty"`
	// Licences are names, or patterns as of path.Match, in any case; UnknownLicence
	// stands for models of which none is known. Of several licences of a model one must match.
	Licences []string  `json:"licences,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
}

// UnknownLicence is what Filters.Licences calls the lack of a licence.
const UnknownLicence = "unknown"

// Language is one that the board has a score for.
type Language struct {
	Code string `json:"code"`
	Name string `json:"name"` // in English
}

// Metric is one of a task.
type Metric struct {
	Name  string  `json:"name"`
	Scale float64 `json:"scale"` // of the raw value to the one shown
}

// TaskInfo is a task of the board's data sets, the first metric the ranked one.
type TaskInfo struct {
	Name    string   `json:"name"`
	Metrics []Metric `json:"metrics"`
}

// DatasetInfo is a data set that any model of the board has a score on.
type DatasetInfo struct {
	Name      string   `json:"name"`
	Task      string   `json:"task"`
	Languages []string `json:"languages"`          // as the data set has them
	Board     []string `json:"board_languages"`    // as the board has them: nb and nn are no
	Ranked    bool     `json:"ranked"`             // part of the aggregates
	Weight    float64  `json:"weight"`             // in the overall score
	Digest    string   `json:"digest,omitempty"`   // of the build that is ranked
	Rows      int      `json:"test_rows,omitzero"` // 0: not known
	Models    int      `json:"models"`             // with a score
}

// Agg is an aggregate of scores.
type Agg struct {
	Value scoring.Value `json:"value"`
	// HalfWidth of the 95 % interval: Student's t of the propagated error with
	// Welch's and Satterthwaite's degrees of freedom, or the mean of half-widths,
	// or the upper part of the bootstrap's interval.
	HalfWidth scoring.Value `json:"half_width"`
	SE        scoring.Value `json:"se"`
	DF        float64       `json:"df"`
	// Median is the same aggregate of the seeds' medians: what the value would be
	// but for collapsed seeds.
	Median scoring.Value `json:"median"`
	// Rank is that among all models with the aggregate's data sets, also those
	// that lack others; see Row.Rank. nil: the model has no value.
	Rank *stats.Ranks `json:"rank,omitempty"`
}

// Row is one model under one protocol. Its Overall has no Rank of its own.
type Row struct {
	Model      string `json:"model"`
	Revision   string `json:"revision,omitempty"`
	Kind       string `json:"kind"`
	Parameters int64  `json:"parameters"`
	MaxLength  int    `json:"max_length"`
	Vocabulary int    `json:"vocabulary"`
	Protocol   string `json:"protocol"`
	RemoteCode bool   `json:"remote_code,omitempty"`
	Licence    string `json:"licence,omitempty"` // as the model's card names it; "": not known

	Position int          `json:"position,omitempty"` // by the score; for order alone
	Rank     *stats.Ranks `json:"rank,omitempty"`     // the ranks that the score does not rule out
	Overall  Agg          `json:"overall"`

	ByLanguage map[string]Agg  `json:"by_language"`
	ByTask     map[string]Agg  `json:"by_task"`
	ByCell     map[string]Agg  `json:"by_language_and_task"` // "da/ner"
	Datasets   map[string]Cell `json:"datasets"`
	Missing    []string        `json:"missing,omitempty"` // ranked data sets without a score

	Collapsed   int       `json:"collapsed"` // seeds, over all ranked data sets
	Seeds       int       `json:"seeds"`     // the fewest of any ranked data set
	Finished    time.Time `json:"finished,omitzero"`
	WallSeconds float64   `json:"wall_seconds"`
	GPUSeconds  float64   `json:"gpu_seconds"`
	EnergyKWh   float64   `json:"energy_kwh"`
	CO2eKg      float64   `json:"co2e_kg"`
	// EnergySource says how EnergyKWh is known, as in records; "": no GPU was used.
	EnergySource string  `json:"energy_source,omitempty"`
	Price        float64 `json:"price,omitempty"`
	// EstimatedGPUSeconds are those whose energy was not measured.
	EstimatedGPUSeconds float64 `json:"estimated_gpu_seconds,omitempty"`
}

// Cell is one model on one data set. Scores are on the scale that people read.
type Cell struct {
	Metrics   map[string]CellMetric      `json:"metrics"`
	Seeds     []int                      `json:"seeds"`
	Scores    map[string][]scoring.Value `json:"scores"`              // metric → one for each seed
	Runs      []Run                      `json:"runs,omitempty"`      // one for each seed, if it is known how they ran
	Collapsed []int                      `json:"collapsed,omitempty"` // seeds
	Failures  []Failure                  `json:"failures,omitempty"`
	Imported  string                     `json:"imported,omitempty"` // layout of the file it came from
	Version   string                     `json:"version,omitempty"`  // of the program that made it, if it was imported
	Partial   bool                       `json:"partial,omitempty"`
	Finished  time.Time                  `json:"finished,omitzero"`
	Warnings  []string                   `json:"warnings,omitempty"`

	WallSeconds  float64 `json:"wall_seconds"`
	GPUSeconds   float64 `json:"gpu_seconds"`
	EnergyKWh    float64 `json:"energy_kwh"`
	CO2eKg       float64 `json:"co2e_kg"`
	EnergySource string  `json:"energy_source,omitempty"`
	Price        float64 `json:"price,omitempty"`
	// See Row.
	EstimatedGPUSeconds float64           `json:"estimated_gpu_seconds,omitempty"`
	Versions            map[string]string `json:"versions,omitempty"` // of libraries

	primary stats.Estimate
	halfZ   scoring.Value
	median  float64 // of the ranked metric
}

// CellMetric is the summary of one metric.
type CellMetric struct {
	N          int           `json:"n"`
	Mean       scoring.Value `json:"mean"`
	Median     scoring.Value `json:"median"`
	HalfWidthT scoring.Value `json:"half_width_t"`
	HalfWidthZ scoring.Value `json:"half_width_z"`
}

// Run says how one seed ran.
type Run struct {
	Steps      int     `json:"steps"`
	BestStep   int     `json:"best_step"`
	Device     string  `json:"device"`
	DeviceName string  `json:"device_name"`
	GPUs       int     `json:"gpus"`
	Executor   string  `json:"executor"`
	Host       string  `json:"host"`
	Precision  string  `json:"precision"`
	Seconds    float64 `json:"seconds"`
	TrainSecs  float64 `json:"train_seconds"`
	HostMB     float64 `json:"peak_host_mb"`
	DeviceMB   float64 `json:"peak_device_mb"`

	ValidationLosses [][2]float64 `json:"validation_losses,omitempty"` // [step, loss], where known
}

// Failure is a seed without a score.
type Failure struct {
	Seed    int    `json:"seed"`
	Failure string `json:"failure"`
	Message string `json:"message"`
}

// LeftOut counts records that are not in the ranking, for one reason.
type LeftOut struct {
	Reason  string   `json:"reason"`
	Records int      `json:"records"`
	Models  []string `json:"models"`
}

// Column is a data set that a suite asks for.
type Column struct {
	Name, Task string
	Languages  []string
}

// Mainland are the data sets of the ScandEval paper's ranking.
func Mainland() []Column {
	return []Column{
		{"dane", "ner", []string{"da"}}, {"angry-tweets", "sentiment", []string{"da"}}, {"scala-da", "acceptability", []string{"da"}}, {"scandiqa-da", "qa", []string{"da"}},
		{"norne-nb", "ner", []string{"nb"}}, {"norne-nn", "ner", []string{"nn"}}, {"norec", "sentiment", []string{"nb", "nn"}},
		{"scala-nb", "acceptability", []string{"nb"}}, {"scala-nn", "acceptability", []string{"nn"}}, {"scandiqa-no", "qa", []string{"nb", "nn"}},
		{"suc3", "ner", []string{"sv"}}, {"swerec", "sentiment", []string{"sv"}}, {"scala-sv", "acceptability", []string{"sv"}}, {"scandiqa-sv", "qa", []string{"sv"}},
	}
}

// Insular are the paper's data sets in Icelandic and Faroese.
func Insular() []Column {
	return []Column{
		{"mim-gold-ner", "ner", []string{"is"}}, {"scala-is", "acceptability", []string{"is"}},
		{"wikiann-fo", "ner", []string{"fo"}}, {"scala-fo", "acceptability", []string{"fo"}},
	}
}

// languageNames are those of the languages of the benchmark and of its successor.
var languageNames = map[string]string{
	"da": "Danish", "no": "Norwegian", "sv": "Swedish", "is": "Icelandic", "fo": "Faroese", "en": "English", "de": "German", "nl": "Dutch", "fi": "Finnish",
	"be": "Belarusian", "bg": "Bulgarian", "bs": "Bosnian", "ca": "Catalan", "cs": "Czech", "el": "Greek", "es": "Spanish", "et": "Estonian", "fr": "French", "hr": "Croatian",
	"hu": "Hungarian", "it": "Italian", "lt": "Lithuanian", "lv": "Latvian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "sk": "Slovak", "sl": "Slovene", "sq": "Albanian",
	"sr": "Serbian", "uk": "Ukrainian",
}

// languageOrder is that of the paper; others follow by code.
var languageOrder = []string{"da", "no", "sv", "is", "fo"}

// boardLanguages are the languages under which a data set counts.
func boardLanguages(codes []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range codes {
		if c == "nb" || c == "nn" {
			c = "no"
		}
		if !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}
