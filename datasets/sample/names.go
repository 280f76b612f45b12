package sample

// Names are put together here. The second part of each list is kept for test
// rows, so that a model has to read the sentence and not to know the name.
var (
	firstNames = pool{
		known: []string{"Anna", "Lars", "Mette", "Søren", "Freja", "Jógvan", "Sigrún", "Åse", "Peter", "Ingrid", "Magnus", "Karen", "Emil", "Þóra", "Bjørn", "Ida", "Guðrún", "Niels", "Solveig", "Tróndur", "Rasmus", "Ellen", "Ólafur", "Liv"},
		kept:  []string{"Astrid", "Henrik", "Birna", "Mikkjal", "Øystein", "Ragna", "Sten", "Júlía"},
	}
	// ambiguous names are surnames, towns, firms and titles alike.
	ambiguous = pool{
		known: []string{"Holm", "Lund", "Berg", "Strand", "Vang", "Ravn", "Bakke", "Fjord", "Skov", "Højgård", "Eng", "Dalby", "Nordvig", "Vestergård", "Lyng", "Hede", "Kvist", "Aaberg", "Møldrup", "Sande"},
		kept:  []string{"Krog", "Toft", "Birk", "Søndergård", "Brink", "Ellehøj"},
	}
	placeStems = pool{
		known: []string{"Ravns", "Nord", "Kongs", "Fugle", "Sild", "Birke", "Øster", "Havn", "Møl", "Sten", "Vinter", "Ane"},
		kept:  []string{"Hvid", "Lang", "Bjerg"},
	}
	placeEnds = []string{"borg", "by", "vig", "sund", "rup", "ø", "havn", "lev"}
)

// pool is a list of names, some of which only test rows may use.
type pool struct{ known, kept []string }

// from draws a name; in the test split four in ten are kept ones.
func (p pool) from(d *draw) string {
	if d.test && d.chance(40) {
		return pick(d, p.kept)
	}
	return pick(d, p.known)
}

func placeName(d *draw) string { return placeStems.from(d) + pick(d, placeEnds) }
