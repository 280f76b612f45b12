package recipes

func scalaFO() Recipe {
	const commit = "65e3d0ad051167ff508e7b13175deab5ba5d7c09"
	return scalaRecipe("fo", 1621,
		github("UniversalDependencies/UD_Faroese-FarPaHC", commit, "fo_farpahc-ud-train.conllu", "18de8765ed624e56ec459f2902b0043651686072"),
		github("UniversalDependencies/UD_Faroese-FarPaHC", commit, "fo_farpahc-ud-dev.conllu", "80a4fbe34610e3bc3e247cfa1407838360af18b8"),
		github("UniversalDependencies/UD_Faroese-FarPaHC", commit, "fo_farpahc-ud-test.conllu", "ac98de393527b94292a2a7189d9716a749b4608a"),
	)
}
