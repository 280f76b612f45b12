package recipes

func scalaNN() Recipe {
	const commit = "d332ca7108148ceb6d38859affdc17462bcd9860"
	return scalaRecipe("nn", 17575,
		github("UniversalDependencies/UD_Norwegian-Nynorsk", commit, "no_nynorsk-ud-train.conllu", ""),
		github("UniversalDependencies/UD_Norwegian-Nynorsk", commit, "no_nynorsk-ud-dev.conllu", "7d3ab4723904a0009fd099900589cb91ed382655"),
		github("UniversalDependencies/UD_Norwegian-Nynorsk", commit, "no_nynorsk-ud-test.conllu", "ad72df2c6d4c6c8e846fbddf142ae1f57aaf2560"),
	)
}
