// Package scandiqa builds ScandiQA: extractive question answering in Danish,
// Norwegian and Swedish, from MKQA (10,000 questions with answers, translated by
// people) and Natural Questions (the same questions with the English Wikipedia
// page that was searched for them).
//
// # The pipeline
//
//  1. mkqa: questions and answers are read and cleaned (readMKQA, CleanQuestion,
//     CleanText).
//  2. pages: Natural Questions is streamed once, 42 GB of it; what the questions
//     need of their pages is kept: the long answer by its byte range in the HTML,
//     else the longer paragraphs (longAnswer, paragraphs).
//  3. contexts: one context a question. The long answer if there is one; else,
//     among the paragraphs that hold a candidate of the English answer, or among
//     all if there is no answer, the one whose embedding has the highest cosine
//     with that of the question.
//  4. rows: the context is translated by machine, and the answer is looked for
//     in the translation (Candidates, Locate).
//  5. the split: val, test and train are drawn without overlap.
//
// Each step leaves its state as files in [Builder.Dir], and whatever was asked
// of an embedding or translation service is written down before it is used. A
// build that was killed, or that met a quota, goes on where it stopped and asks
// no service twice for what it has.
//
// # Against the original
//
// The rules are those of the published builder (github.com/alexandrainst/ScandiQA),
// with these corrections, none of which changes a candidate or a span that the
// original defines: candidates of equal length have an order (that of their code
// points; it was that of a hash table); a span is taken where it was found even
// if a letter of the context has a longer lower-case form; no text is lost when
// a long one is translated in pieces; draws are seeded. As in the original,
// questions lose the capitals of names, "the" is removed inside words, too, forms
// with thousands separators are never candidates, and of the questions that
// Natural Questions answers with yes or no only the former are left out: all this
// is part of what the data set is.
package scandiqa

// Lang is a language of MKQA that the data sets are made in, or English.
type Lang string

// The languages.
const (
	English   Lang = "en"
	Danish    Lang = "da"
	Norwegian Lang = "no"
	Swedish   Lang = "sv"
)
