package recipes

func scalaDA() Recipe {
	const commit = "85faf86dc39f735722925fb1e822070d83649068"
	return scalaRecipe("da", 5512,
		github("UniversalDependencies/UD_Danish-DDT", commit, "da_ddt-ud-train.conllu", ""),
		github("UniversalDependencies/UD_Danish-DDT", commit, "da_ddt-ud-dev.conllu", "29410816e752d64f2855bc655ab6c307eb45d60f"),
		github("UniversalDependencies/UD_Danish-DDT", commit, "da_ddt-ud-test.conllu", "d43b16c9c274e32b89de2237d493aef81161fba5"),
	)
}
