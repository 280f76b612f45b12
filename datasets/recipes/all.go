package recipes

// All returns the recipes of this package, in the order of the benchmark: by
// task, then as in its paper.
func All() []Recipe {
	all := []Recipe{
		dane(), norneNB(), norneNN(), wikiannFO(),
		angryTweets(), norec(), swerec(),
		scalaDA(), scalaSV(), scalaNB(), scalaNN(), scalaIS(), scalaFO(),
		norquad(),
		speed(),
	}
	for i := range all {
		all[i].Origin = BuiltIn
	}
	return all
}
