package recipes

// Later commits of this treebank have fewer sentences.
func scalaIS() Recipe {
	const commit = "901c3581eaeee79eac28afdd74d7c1dd76765b7c"
	return scalaRecipe("is", 3464,
		github("UniversalDependencies/UD_Icelandic-Modern", commit, "is_modern-ud-train.conllu", "e2dd0dc0d2b0e1af8a347f9469739123f6b985fa"),
		github("UniversalDependencies/UD_Icelandic-Modern", commit, "is_modern-ud-dev.conllu", "cb655609c17ad6746a13534dab1de8f0dd6f552a"),
		github("UniversalDependencies/UD_Icelandic-Modern", commit, "is_modern-ud-test.conllu", "99ddfd6f81d187faf8859fa7d26c23be830191a3"),
	)
}
