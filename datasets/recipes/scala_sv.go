package recipes

func scalaSV() Recipe {
	const commit = "30067217d275233ed460d0c0abafeaf22d63a3d2"
	return scalaRecipe("sv", 6026,
		github("UniversalDependencies/UD_Swedish-Talbanken", commit, "sv_talbanken-ud-train.conllu", ""),
		github("UniversalDependencies/UD_Swedish-Talbanken", commit, "sv_talbanken-ud-dev.conllu", "8ebaa940833811f89cb3658da2e14a44e27d4e77"),
		github("UniversalDependencies/UD_Swedish-Talbanken", commit, "sv_talbanken-ud-test.conllu", "659a12f982a6c4a3afbc05ac05c30458ad70bdf2"),
	)
}
