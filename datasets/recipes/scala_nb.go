package recipes

func scalaNB() Recipe {
	const commit = "e83586ff8b324f147e767dccd7ed801b3666ca08"
	return scalaRecipe("nb", 20044,
		github("UniversalDependencies/UD_Norwegian-Bokmaal", commit, "no_bokmaal-ud-train.conllu", ""),
		github("UniversalDependencies/UD_Norwegian-Bokmaal", commit, "no_bokmaal-ud-dev.conllu", "36aa4e090044eff79f0ad6e14595456e30769426"),
		github("UniversalDependencies/UD_Norwegian-Bokmaal", commit, "no_bokmaal-ud-test.conllu", "de9424d43a9995150ac642e57191e4d59c282352"),
	)
}
