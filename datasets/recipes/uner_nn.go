package recipes

func unerNN() Recipe {
	return unerRecipe("nn", 17575, "UNER_Norwegian-NDT", "39a2e37f20fd86e2b4c3a13eb8385cb335dcdc60",
		[2]string{"nno_norne-ud-train.iob2", ""},
		[2]string{"nno_norne-ud-dev.iob2", "34078910dd081ae6dfc661d49da4cf6a672a9d03"},
		[2]string{"nno_norne-ud-test.iob2", "686e2f78b4b724a8f3cc2d277a7d162c2724c6a6"},
	)
}
