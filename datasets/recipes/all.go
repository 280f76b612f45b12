package recipes

// All returns the recipes of this package, in the order of the benchmark: by
// task, then as in its paper; then the extra ones, and variants.
func All() []Recipe {
	all := []Recipe{
		dane(), suc3(), norneNB(), norneNN(), mimGoldNER(), wikiannFO(),
		angryTweets(), norec(), swerec(),
		scalaDA(), scalaSV(), scalaNB(), scalaNN(), scalaIS(), scalaFO(),
		speed(),
		unerDA(), unerSV(), unerNB(), unerNN(), fone(),
		norquad(), squadV2SV(), xquadEN(), xquadDE(),
	}
	for _, r := range []Recipe{scalaDA(), scalaSV(), scalaNB(), scalaNN(), scalaIS(), scalaFO()} {
		all = append(all, scandEvalRules(r))
	}
	for i := range all {
		all[i].Origin = BuiltIn
		if all[i].Suite == "" {
			all[i].Suite = Paper
		}
	}
	return all
}
